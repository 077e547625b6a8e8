# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "numpy"]  # numpy: torch warns without it
# ///
"""GRPO from scratch: a table learns 36 additions, beside REINFORCE, in seconds on a CPU.

    python from_scratch.py           train both methods, 64 runs each, and compare them
    python from_scratch.py --help    every setting

Read from top to bottom: the order is that of GRPO's maths (arXiv:2402.03300); the output is last.

Where this departs from the papers and libraries: one answer is one token, so there is no length
to normalise; the KL is exact, not estimated; the std is the population's (TRL and verl divide
by G - 1); a group whose rewards are all equal is skipped whole, its KL too; SGD instead of Adam.

Shapes: B questions in a batch, G answers in a group, R independent runs. Rows never influence each
other, so all runs share one table of R * 36 rows: row = 36 * run + question.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from numbers import Integral, Real
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

N_A, N_B = 6, 6  # a and b are 0..5
N_Q = N_A * N_B  # question q = 6a + b asks for a + b
N_ANS = 13  # answers 0..12; the sums reach only 10, so 11 and 12 are never right

Generator = torch.Generator | None  # None: torch's global one

RULES: dict[str, tuple[type, Callable[[float], bool]]] = {
    "an integer >= 1, < 2**31": (Integral, lambda value: 1 <= value < 2**31),
    "an integer >= 2, < 2**31": (Integral, lambda value: 2 <= value < 2**31),
    "an integer >= 0, < 2**64": (Integral, lambda value: 0 <= value < 2**64),
    "a finite number": (Real, lambda value: True),
    "a finite number > 0": (Real, lambda value: value > 0),
    "a finite number >= 0": (Real, lambda value: value >= 0),
    "a number >= 0, < 1": (Real, lambda value: 0 <= value < 1),
    "True or False": (bool, lambda value: True),
}


def setting(default: Any, rule: str, meaning: str) -> Any:
    """A field of Config: its default, its rule (a key of RULES), and its line in --help."""
    return field(default=default, metadata={"rule": rule, "meaning": meaning})


@dataclass(frozen=True)
class Config:
    """All settings, each also a flag (kl_beta: --kl-beta). ValueError where one breaks its rule."""

    steps: int = setting(120, "an integer >= 1, < 2**31", "updates, of one question per run each")
    runs: int = setting(64, "an integer >= 1, < 2**31", "repetitions, for the error bars")
    group: int = setting(8, "an integer >= 2, < 2**31", "G, answers sampled per question")
    lr: float = setting(4.0, "a finite number > 0", "SGD step; GRPO's lead is a longer step")
    epochs: int = setting(1, "an integer >= 1, < 2**31", "GRPO only: updates per sampled group, mu")
    clip_eps: float = setting(0.2, "a number >= 0, < 1", "GRPO only: clip; idle while epochs is 1")
    clip_eps_high: float | None = setting(
        None, "a finite number >= 0", "GRPO only: upper clip (None: clip-eps; DAPO: 0.28)"
    )
    kl_beta: float = setting(0.02, "a finite number >= 0", "GRPO only: weight of the KL")
    std_norm: bool = setting(True, "True or False", "GRPO only: divide by the std (Dr.GRPO: no)")
    reward_shift: float = setting(0.0, "a finite number", "added to every reward")
    seed: int = setting(42, "an integer >= 0, < 2**64", "of the questions and the answers")

    def __post_init__(self) -> None:
        for f in fields(self):
            value, rule = getattr(self, f.name), f.metadata["rule"]
            kind, holds = RULES[rule]
            typed = isinstance(value, kind) and isinstance(value, bool) == (kind is bool)
            optional = value is None and f.default is None
            if not (optional or typed and abs(value) < math.inf and holds(value)):
                raise ValueError(f"{f.name} must be {rule}, not {value!r}")


def build_bank() -> tuple[Tensor, Tensor]:
    """Return questions [36] = 6a + b and gold [36] = a + b, both int64."""
    questions = torch.arange(N_Q)
    return questions, questions // N_B + questions % N_B


class AnswerPolicy(nn.Module):
    """A table of logits, one row per question, zero at the start: every answer equally likely."""

    def __init__(self, n_q: int = N_Q, n_ans: int = N_ANS) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(n_q, n_ans))  # [n_q, n_ans]

    def dist(self, q_idx: int | Tensor) -> Categorical:
        """The distribution over answers in row(s) q_idx (an int, or int64 [B])."""
        return Categorical(logits=self.logits[q_idx], validate_args=False)  # a slow check


def log_softmax(logits: Tensor) -> Tensor:
    """[..., n_ans] -> [..., n_ans]; down the columns, for torch is slow along rows this short."""
    return logits.transpose(0, -1).log_softmax(0).transpose(0, -1)


def answer_logp(logits: Tensor, answers: Tensor) -> Tensor:
    """Log-probability of each answer: logits [..., n_ans], answers [..., G] -> [..., G]."""
    return log_softmax(logits).gather(-1, answers)


def bank_rows(policy: AnswerPolicy, gold: Tensor) -> Tensor:
    """The table as [36, n_ans] for gold [36], or [R, 36, n_ans] for gold [R, 36]; no gradient."""
    if gold.numel() != len(policy.logits):
        raise ValueError(f"gold has {gold.numel()} answers for {len(policy.logits)} table rows")
    return policy.logits.detach().view(*gold.shape, -1)


def greedy_score(logits: Tensor, gold: Tensor) -> Tensor:
    """1 where the likeliest answer is right, 1/k where it is one of k that tie, else 0; [...]."""
    best = logits == logits.amax(-1, keepdim=True)  # [..., n_ans]
    return best.gather(-1, gold[..., None])[..., 0] / best.sum(-1)


def accuracy(policy: AnswerPolicy, gold: Tensor) -> Tensor:
    """Greedy accuracy: the share of questions whose likeliest answer is right, ties shared out.

    gold [36] -> scalar, gold [R, 36] -> [R]. ValueError where rows and gold differ in number.
    """
    return greedy_score(bank_rows(policy, gold), gold).mean(-1)


def sampled_accuracy(policy: AnswerPolicy, gold: Tensor) -> Tensor:
    """The mean probability of the right answer, the policy's score as it samples; see accuracy."""
    return answer_logp(bank_rows(policy, gold), gold[..., None]).exp().mean((-2, -1))


def group_advantages(rewards: Any, std_norm: bool = True) -> Tensor:
    """GRPO's advantage, the z-score within a group (arXiv:2402.03300, section 4.1.2).

    A_i = (r_i - mean(r)) / std(r); std_norm=False drops the division (Dr.GRPO, arXiv:2503.20783).
    A group of equal rewards (std < 1e-6) says nothing: its advantages are exactly 0.
    rewards [..., G], numbers of any type -> float32 [..., G], a constant. ValueError for rewards
    that are empty, not in groups, or not finite.
    """
    r = torch.as_tensor(rewards, dtype=torch.float64).detach()  # [..., G]
    if r.dim() == 0 or r.numel() == 0:
        raise ValueError(f"rewards must be [..., G] with G >= 1, not {list(r.shape)}")
    r = r - r[..., :1]  # else mean() rounds, and equal rewards such as 1e12 + 0.1 get a std
    centred = r - r.mean(-1, keepdim=True)
    std = r.std(-1, correction=0, keepdim=True)  # [..., 1]; the population's
    scaled = (centred / (std + 1e-8) if std_norm else centred).float()
    if not math.isfinite((std + scaled).sum()):
        raise ValueError("rewards must be finite, and so must their spread")
    return torch.where(std < 1e-6, 0.0, scaled)


def sample_answers(
    policy: AnswerPolicy, q_idx: Tensor, group: int, generator: Generator = None
) -> tuple[Tensor, Tensor]:
    """Draw a group per question from pi_old, the policy as it is now, with replacement.

    q_idx [B] -> answers [B, G] int64, logp_old [B, G] (constants: no gradient).
    """
    with torch.no_grad():
        probs = policy.dist(q_idx).probs  # [B, 13]
        answers = torch.multinomial(probs, group, replacement=True, generator=generator)
        return answers, answer_logp(policy.logits[q_idx], answers)


def clipped_surrogate(
    logp_new: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    clip_eps: float = 0.2,
    clip_eps_high: float | None = None,
) -> Tensor:
    """PPO's clipped objective, to be maximised (arXiv:1707.06347, eq. 7); per answer, no mean.

    min(ratio * A, clip(ratio, 1 - eps, 1 + eps_high) * A) with ratio = pi_theta / pi_old.
    Three tensors of one shape -> that shape, in logp_new's dtype; gradient to logp_new alone.
    clip_eps_high None = clip_eps. ValueError where the shapes differ: [4] with [4, 1] would
    broadcast to [4, 4], whose sum, and gradient, is 0.
    """
    if not logp_new.shape == logp_old.shape == advantages.shape:
        shapes = logp_new.shape, logp_old.shape, advantages.shape
        raise ValueError(f"logp_new, logp_old, advantages must have one shape, not {shapes}")
    dtype = logp_new.dtype
    advantages = advantages.detach().to(dtype)
    largest = torch.finfo(dtype).max
    limit = min(20.0, math.log(largest) / 2)  # exp() must not overflow (half precision: 5.5)
    ratio = (logp_new - logp_old.detach().to(dtype)).clamp(-limit, limit).exp()
    high = min(1 + (clip_eps if clip_eps_high is None else clip_eps_high), largest)
    return torch.min(ratio * advantages, ratio.clamp(1 - clip_eps, high) * advantages)


def kl_to_reference(logits: Tensor, ref_logits: Tensor) -> Tensor:
    """Exact KL(pi_theta || pi_ref) = sum_o pi_theta(o) log(pi_theta(o) / pi_ref(o)), in nats.

    [..., n_ans] twice -> [...]. Language models must estimate it (arXiv:2402.03300, eq. 4: "k3").
    """
    logp, logp_ref = log_softmax(logits), log_softmax(ref_logits)
    return (logp.exp() * (logp - logp_ref)).sum(-1)


def grpo_loss(
    logits: Tensor,
    ref_logits: Tensor,
    answers: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    config: Config,
) -> Tensor:
    """GRPO's objective with the sign turned, to be minimised (arXiv:2402.03300, eq. 3); scalar.

    Sum over questions of beta * KL - mean_i surrogate_i. A group without a signal adds nothing,
    not even KL. logits, ref_logits [B, 13]; answers, logp_old, advantages [B, G].
    Its value says little: at ratio 1 the surrogate is the mean advantage, 0. Its gradient is not 0.
    """
    logp_new = answer_logp(logits, answers)  # [B, G]
    surrogate = clipped_surrogate(
        logp_new, logp_old, advantages, config.clip_eps, config.clip_eps_high
    ).mean(dim=1)  # [B]
    kl = kl_to_reference(logits, ref_logits.detach())  # [B]
    signal = (advantages != 0).any(dim=1)  # [B]
    return torch.where(signal, config.kl_beta * kl - surrogate, 0.0).sum()


def clipped_share(
    logits: Tensor, answers: Tensor, logp_old: Tensor, advantages: Tensor, config: Config
) -> Tensor:
    """[B]: the share of answers whose gradient the clip removed: min took the clipped product."""
    logp_new = answer_logp(logits, answers)
    surrogate = clipped_surrogate(
        logp_new, logp_old, advantages, config.clip_eps, config.clip_eps_high
    )
    return (surrogate < (logp_new - logp_old).exp() * advantages).float().mean(dim=1)


def sgd_step(policy: AnswerPolicy, loss: Tensor, lr: float) -> None:
    """theta <- theta - lr * gradient, in place; the same as torch.optim.SGD, a slow import."""
    (gradient,) = torch.autograd.grad(loss, policy.logits)
    with torch.no_grad():
        policy.logits.sub_(gradient, alpha=float(gradient.new_tensor(lr)))


class StepStats(NamedTuple):
    """What one step saw, a value per question: each tensor is [B] ([R] in train)."""

    hit_rate: Tensor  # share of the group that was right, before reward_shift
    skipped: Tensor  # bool: the group had no signal, the row stayed as it was
    clip_fraction: Tensor  # share of answers whose gradient the clip removed, mean over the epochs


def grpo_step(
    policy: AnswerPolicy,
    ref_logits: Tensor,
    q_idx: Tensor,
    gold: Tensor,
    config: Config,
    generator: Generator = None,
) -> StepStats:
    """Sample, score, compare within the group, update: one iteration of Algorithm 1, in place.

    q_idx [B] are table rows, gold [B] their right answers, ref_logits the whole frozen table.
    """
    answers, logp_old = sample_answers(policy, q_idx, config.group, generator)  # [B, G]
    hits = (answers == gold[:, None]).float()  # [B, G]; the verifier pays 1 for a + b, else 0
    rewards = hits.double() + config.reward_shift  # [B, G]
    advantages = group_advantages(rewards, config.std_norm)  # [B, G]
    skipped = (advantages == 0).all(dim=1)  # [B]
    clip_fraction = torch.zeros(len(q_idx))
    epochs = 0 if skipped.all() else config.epochs  # no signal at all: leave the table alone
    for epoch in range(epochs):
        logits = policy.logits[q_idx]  # [B, 13]; pi_theta moves, logp_old and the reference do not
        if epoch > 0:  # before the first update the ratio is 1
            clipped = clipped_share(logits, answers, logp_old, advantages, config)
            clip_fraction += clipped / epochs
        loss = grpo_loss(logits, ref_logits[q_idx], answers, logp_old, advantages, config)
        sgd_step(policy, loss, config.lr)
    return StepStats(hits.mean(dim=1), skipped, clip_fraction)


def reinforce_step(
    policy: AnswerPolicy, q_idx: Tensor, gold: Tensor, config: Config, generator: Generator = None
) -> StepStats:
    """REINFORCE without a baseline (Williams 1992): minimise -mean_i(r_i log pi(o_i)), in place.

    Same arguments as grpo_step, less the reference: the reward itself stands for the advantage.
    """
    answers, _ = sample_answers(policy, q_idx, config.group, generator)  # [B, G]
    hits = (answers == gold[:, None]).float()  # [B, G]
    logp = answer_logp(policy.logits[q_idx], answers)  # [B, G]
    loss = -(logp * (hits + config.reward_shift)).mean(dim=1).sum()
    sgd_step(policy, loss, config.lr)
    nothing = torch.zeros(len(q_idx))
    return StepStats(hits.mean(dim=1), nothing.bool(), nothing)


class Record(NamedTuple):
    """The state after one step, a value per run: each tensor is [R]."""

    accuracy: Tensor  # greedy, 0..1
    sampled_accuracy: Tensor  # 0..1
    kl: Tensor  # KL to the reference, mean over the 36 rows, nats
    stats: StepStats


def score_rows(logits: Tensor, ref_logits: Tensor, gold: Tensor) -> Tensor:
    """[3, B]: greedy score, probability of the right answer, KL to the reference of each row."""
    right = answer_logp(logits, gold[:, None])[:, 0].exp()
    return torch.stack([greedy_score(logits, gold), right, kl_to_reference(logits, ref_logits)])


def train(policy: AnswerPolicy, method: str, config: Config) -> Iterator[Record]:
    """Train the table in place by "grpo" or "reinforce", yielding a Record after each step.

    The table holds R banks of 36 rows; each run draws its own question. A generator of its own,
    seeded with config.seed, draws questions, then answers: two methods under one seed share
    their luck. ValueError for another method or table; FloatingPointError where training diverges.
    """
    if method not in ("grpo", "reinforce"):
        raise ValueError(f'method must be "grpo" or "reinforce", not {method!r}')
    runs, rest = divmod(len(policy.logits), N_Q)
    if rest or not runs:
        raise ValueError(f"the table must hold whole banks of {N_Q} rows, not {len(policy.logits)}")
    _, gold = build_bank()
    table = policy.logits.detach()  # the live table, without gradient
    if not math.isfinite(table.sum()):
        raise FloatingPointError("before step 1: the table holds logits that are not finite")
    ref_logits = table.clone()  # frozen
    scores = score_rows(table, ref_logits, gold.repeat(runs))  # [3, R * 36]
    first = N_Q * torch.arange(runs)  # [R], the first row of each run
    generator = torch.Generator().manual_seed(int(config.seed))
    for step in range(1, config.steps + 1):
        q = torch.randint(N_Q, (runs,), generator=generator)  # [R], a question per run
        q_idx, right = q + first, gold[q]  # [R] each: its row and its answer
        if method == "grpo":
            stats = grpo_step(policy, ref_logits, q_idx, right, config, generator)
        else:
            stats = reinforce_step(policy, q_idx, right, config, generator)
        rows = table[q_idx]  # [R, 13], the only rows that moved
        if not math.isfinite(rows.sum()):
            raise FloatingPointError(f"{method} diverged at step {step}: lower lr ({config.lr:g})")
        scores[:, q_idx] = score_rows(rows, ref_logits[q_idx], right)
        greedy, sampled, kl = scores.view(3, runs, N_Q).mean(-1)  # [R] each
        yield Record(greedy, sampled, kl, stats)


def parse_config(argv: Sequence[str] | None) -> Config:
    """Read the flags; a bad one ends the program with its name, its rule and exit status 2."""
    parser = argparse.ArgumentParser(
        description="Train GRPO and REINFORCE on 36 sums a+b under the same luck; compare them.",
        usage="from_scratch.py [--help] [--FLAG VALUE ...]",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    for f in fields(Config):
        flag = "--" + f.name.replace("_", "-")
        how: dict[str, Any] = {"type": int if type(f.default) is int else float, "metavar": "N"}
        if isinstance(f.default, bool):
            how = {"action": argparse.BooleanOptionalAction}
        parser.add_argument(flag, default=f.default, help=f.metadata["meaning"], **how)
    try:
        return Config(**vars(parser.parse_args(argv)))
    except ValueError as error:
        name, _, rule = str(error).partition(" ")
        parser.error(f"argument --{name.replace('_', '-')}: {rule}")


def count_groups(stats: StepStats) -> Tensor:
    """[4, R]: skipped as all-wrong, skipped as all-right, not skipped, clip fraction."""
    wrong, right = stats.skipped & (stats.hit_rate == 0), stats.skipped & (stats.hit_rate == 1)
    return torch.stack([wrong, right, ~stats.skipped, stats.clip_fraction])


def print_row(step: int, grpo: Record, reinforce: Record, skipped: Tensor) -> None:
    """Print the mean accuracies after a step, and the shares [2] of groups skipped before it."""
    cells = [x.mean() for r in (grpo, reinforce) for x in (r.sampled_accuracy, r.accuracy)]
    print(f"{step:6}" + "".join(f"{cell:11.3f}" for cell in [*cells, *skipped]), flush=True)


def print_figure(label: str, values: Tensor, note: str = "") -> None:
    """Print the mean of values [R] and, for several runs, its 95% half-width."""
    mean = f"{values.mean():.3f}" if len(values) else "none"
    half = f" +/- {1.96 * values.std() / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    print(f"{label:<27}{mean:>6}{half}{note}")


def print_summary(grpo: Record, reinforce: Record, groups: Tensor, config: Config) -> None:
    """Print the figures after the last step; groups [4, R] sums count_groups over the steps."""
    wrong, right, taught, clipped = groups  # [R] each
    print_figure("GRPO sampled", grpo.sampled_accuracy)
    print_figure("GRPO greedy", grpo.accuracy)
    print_figure("REINFORCE sampled", reinforce.sampled_accuracy)
    print_figure("REINFORCE greedy", reinforce.accuracy)
    print_figure("GRPO - REINFORCE sampled", grpo.sampled_accuracy - reinforce.sampled_accuracy)
    print_figure("GRPO skipped all-wrong", wrong / config.steps)
    print_figure("GRPO skipped all-right", right / config.steps)
    print_figure("GRPO KL", grpo.kl)
    print_figure("REINFORCE KL", reinforce.kl)
    idle = "  (ratio 1: nothing to clip)" if config.epochs == 1 else ""
    print_figure("GRPO clip fraction", (clipped / taught)[taught > 0], idle)


def addition_table(policy: AnswerPolicy) -> str:
    """Run 0's likeliest answers, 6 by 6: ? where the row favours none, ! after a wrong one."""
    lines = ["a\\b" + "".join(f"{b:4} " for b in range(N_B))]
    for a in range(N_A):
        lines.append(f"{a:3}")
        for b in range(N_B):
            row = policy.logits[N_B * a + b]
            best = (row == row.max()).nonzero().flatten().tolist()
            mark = " " if best == [a + b] else "!"
            lines[-1] += f"{best[0]:4}{mark}" if len(best) == 1 else "   ? "
    return "\n".join(line.rstrip() for line in lines)


def compare(config: Config) -> None:
    """Train both methods side by side and print how they fare; Ctrl-C says how far they got."""
    start, step, defaults = time.perf_counter(), 0, vars(Config())
    head = ("steps", "runs", "group", "lr", "seed")
    shown = [f"{k} {v}" for k, v in vars(config).items() if k in head or v != defaults[k]]
    print("GRPO and REINFORCE on 36 sums a+b:", ", ".join(shown))
    print(f"{'GRPO':>24}{'REINFORCE':>22}{'GRPO groups skipped':>26}")
    print("  step" + "    sampled     greedy" * 2 + "  all-wrong  all-right", flush=True)
    policy, other = AnswerPolicy(config.runs * N_Q), AnswerPolicy(config.runs * N_Q)
    total, seen = torch.zeros(2, 4, config.runs)
    every = max(1, config.steps // 10)
    try:
        pairs = zip(train(policy, "grpo", config), train(other, "reinforce", config), strict=True)
        for step, (grpo, reinforce) in enumerate(pairs, 1):
            total += count_groups(grpo.stats)
            if step % every == 0:
                print_row(step, grpo, reinforce, (total - seen)[:2].mean(dim=1) / every)
                seen = total.clone()
        print()
        print_summary(grpo, reinforce, total, config)
        print(f"{'seconds':<27}{time.perf_counter() - start:6.1f}")
        print(f"\nWhat GRPO learned in run 0 (? nothing yet, ! wrong):\n{addition_table(policy)}\n")
        print("Compare the sampled accuracies: greedy only counts the sums that were ever hit.")
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"\nstopped after step {step} of {config.steps}") from None


def main(argv: Sequence[str] | None = None) -> int:
    """Train and report. Returns 0, or 1 for divergence or a lost output, 130 for Ctrl-C."""
    config = parse_config(argv)
    torch.set_num_threads(1)  # tensors this small are faster on one
    try:
        compare(config)
        print(end="", flush=True)  # here a full disk or a closed pipe shows
        return 0
    except (FloatingPointError, KeyboardInterrupt) as stop:
        print(stop, file=sys.stderr)
        return 130 if isinstance(stop, KeyboardInterrupt) else 1
    except RuntimeError as error:
        if "memory" not in str(error):
            raise
        print("not enough memory: use fewer --runs or a smaller --group", file=sys.stderr)
        return 1
    except OSError as error:  # the reader of the pipe has left, or the disk is full
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        if not isinstance(error, BrokenPipeError):
            print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
