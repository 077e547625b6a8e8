# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "numpy"]  # numpy: torch warns without it
# ///
"""GRPO from scratch: a table learns 36 additions, beside REINFORCE, in seconds on a CPU.

    python from_scratch.py           train both methods, 64 runs each, and compare them
    python from_scratch.py --help    every setting

The order is that of GRPO's maths (arXiv:2402.03300); the output comes last. Departures from the
papers and libraries: one answer is one token, so there is no length to normalise; the KL is exact,
not estimated; the std is the population's (TRL and verl divide by G - 1); a group whose rewards are
all equal is skipped whole, its KL too; SGD instead of Adam.

Shapes: B questions in a batch, G answers in a group, R independent runs. Rows never influence each
other, so all runs share one table of R * 36 rows: row = 36 * run + question.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

N_A, N_B = 6, 6  # a and b are 0..5
N_Q = N_A * N_B  # question q = 6a + b asks for a + b
N_ANS = 13  # answers 0..12; the sums reach only 10, so 11 and 12 are never right

Generator = torch.Generator | None  # None: torch's global one


def setting(default: Any, low: float, high: float, meaning: str) -> Any:
    """A field of Config: its default, the range it must lie in, and its line in --help."""
    return field(default=default, metadata={"low": low, "high": high, "meaning": meaning})


@dataclass(frozen=True)
class Config:
    """All settings; each is also a flag (kl_beta: --kl-beta). ValueError out of its range."""

    steps: int = setting(120, 1, 1e9, "updates, of one question per run each")
    runs: int = setting(64, 1, 1e6, "repetitions, for the error bars")
    group: int = setting(8, 2, 1e6, "G, answers sampled per question")
    lr: float = setting(4.0, 1e-9, 1e6, "SGD step; GRPO's lead is a longer step")
    epochs: int = setting(1, 1, 1e6, "GRPO only: updates per sampled group, mu")
    clip_eps: float = setting(0.2, 0, 1, "GRPO only: clip; idle while epochs is 1")
    clip_eps_high: float | None = setting(None, 0, 1e9, "GRPO only: upper clip (DAPO: 0.28)")
    kl_beta: float = setting(0.02, 0, 1e6, "GRPO only: weight of the KL")
    std_norm: bool = setting(True, 0, 1, "GRPO only: divide by the std (Dr.GRPO: no)")
    reward_shift: float = setting(0.0, -1e9, 1e9, "added to every reward")
    seed: int = setting(42, 0, 1e18, "of the questions and the answers")

    def __post_init__(self) -> None:
        for f in fields(self):
            value, low, high = getattr(self, f.name), f.metadata["low"], f.metadata["high"]
            if value != f.default and not low <= value <= high:
                raise ValueError(f"{f.name} must be from {low:g} to {high:g}, not {value}")


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


def log_probs(logits: Tensor) -> Tensor:
    """log pi(o) of every answer o, as Categorical has it: [..., n_ans] -> [..., n_ans]."""
    return logits - logits.logsumexp(-1, keepdim=True)


def accuracy(policy: AnswerPolicy, gold: Tensor) -> Tensor:
    """Greedy accuracy: the share of questions whose likeliest answer is right, ties shared out.

    gold [36] -> scalar; gold [R, 36], for a table of R * 36 rows -> [R]. Else RuntimeError.
    """
    logits = policy.logits.detach().view(*gold.shape, N_ANS)  # [..., 36, 13]
    best = logits == logits.amax(-1, keepdim=True)  # argmax would say 0 for an untouched row
    right = best.gather(-1, gold[..., None])[..., 0]  # [..., 36]
    return (right / best.sum(-1, dtype=torch.float32)).mean(-1)


def sampled_accuracy(policy: AnswerPolicy, gold: Tensor) -> Tensor:
    """The mean probability of the right answer: the policy's score as it samples; see accuracy."""
    logits = policy.logits.detach().view(*gold.shape, N_ANS)  # [..., 36, 13]
    return log_probs(logits).gather(-1, gold[..., None]).exp().mean((-2, -1))


def sample_answers(
    policy: AnswerPolicy, q_idx: Tensor, group: int, generator: Generator = None
) -> tuple[Tensor, Tensor]:
    """Draw a group per question from pi_old, the policy as it is now, with replacement.

    q_idx [B] -> answers [B, G] int64, logp_old [B, G] (constants: no gradient).
    """
    logp = policy.dist(q_idx).logits.detach()  # [B, 13], normalised
    answers = logp.exp().multinomial(group, replacement=True, generator=generator)
    return answers, logp.gather(-1, answers)


def group_advantages(rewards: Any, std_norm: bool = True) -> Tensor:
    """GRPO's advantage, the z-score within a group (arXiv:2402.03300, section 4.1.2).

    A_i = (r_i - mean(r)) / std(r); std_norm=False drops the division (Dr.GRPO, arXiv:2503.20783).
    A group of equal rewards (std < 1e-6) says nothing: its advantages are exactly 0.
    rewards [..., G], numbers of any type -> float32 [..., G], a constant. Not finite: ValueError.
    """
    r = torch.as_tensor(rewards, dtype=torch.float64).detach()  # [..., G]
    if r.dim() == 0 or r.numel() == 0 or not r.sum().isfinite():
        raise ValueError("rewards must be finite numbers in groups, [..., G]")
    std, mean = torch.std_mean(r, -1, correction=0, keepdim=True)  # [..., 1]; the population's
    scaled = (r - mean) / (std + 1e-8) if std_norm else r - mean
    return torch.where(std < 1e-6, 0.0, scaled).float()


def clipped_surrogate(
    logp_new: Tensor,
    logp_old: Tensor,
    advantages: Tensor,
    clip_eps: float = 0.2,
    clip_eps_high: float | None = None,
) -> Tensor:
    """PPO's clipped objective, to be maximised (arXiv:1707.06347, eq. 7); per answer, no mean.

    min(ratio * A, clip(ratio, 1 - eps, 1 + eps_high) * A) with ratio = pi_theta / pi_old.
    Three tensors of one shape -> that shape; gradient to logp_new alone. clip_eps_high None =
    clip_eps. ValueError where shapes differ: [4] and [4, 1] would broadcast to a loss of 0.
    """
    if not logp_new.shape == logp_old.shape == advantages.shape:
        shapes = [list(x.shape) for x in (logp_new, logp_old, advantages)]
        raise ValueError(f"logp_new, logp_old, advantages must have one shape, not {shapes}")
    advantages = advantages.detach()
    ratio = (logp_new - logp_old.detach()).clamp(-20, 20).exp()  # exp(100) would be inf
    high = 1 + (clip_eps if clip_eps_high is None else clip_eps_high)
    plain, clipped = ratio * advantages, ratio.clamp(1 - clip_eps, high) * advantages
    return torch.where(clipped < plain, clipped, plain)  # torch.min, but with a faster backward


def kl_to_reference(logits: Tensor, ref_logits: Tensor) -> Tensor:
    """Exact KL(pi_theta || pi_ref) = sum_o pi_theta(o) log(pi_theta(o) / pi_ref(o)), in nats.

    [..., n_ans] twice -> [...]. Language models must estimate it (arXiv:2402.03300, eq. 4: "k3").
    """
    logp, logp_ref = log_probs(logits), log_probs(ref_logits)
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

    Sum over questions of beta * KL - mean_i surrogate_i; a group without a signal adds nothing,
    not even KL. logits, ref_logits [B, 13]; answers, logp_old, advantages [B, G].
    Its value says little: at ratio 1 the surrogate is the mean advantage, 0. Its gradient is not 0.
    """
    logp_new = log_probs(logits).gather(-1, answers)  # [B, G]
    gain = clipped_surrogate(logp_new, logp_old, advantages, config.clip_eps, config.clip_eps_high)
    loss = config.kl_beta * kl_to_reference(logits, ref_logits) - gain.mean(-1)  # [B]
    return (loss * (advantages != 0).any(-1)).sum()


def clip_removed(logp_new: Tensor, logp_old: Tensor, advantages: Tensor, config: Config) -> Tensor:
    """[B, G] each -> [B]: the share of answers that the clip left without a gradient."""
    change = (logp_new - logp_old).exp() - 1  # of the probability
    high = config.clip_eps if config.clip_eps_high is None else config.clip_eps_high
    return torch.where(advantages > 0, change > high, change < -config.clip_eps).float().mean(-1)


def sgd_step(policy: AnswerPolicy, loss: Tensor, lr: float) -> None:
    """theta <- theta - lr * gradient, in place; the same as torch.optim.SGD, a slow import."""
    (gradient,) = torch.autograd.grad(loss, policy.logits)
    policy.logits.data.sub_(gradient, alpha=lr)


class StepStats(NamedTuple):
    """What one step saw, a value per question: each tensor is [B]."""

    hit_rate: Tensor  # share of the group that was right
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
    hits = (answers == gold[:, None]).double()  # [B, G]; the verifier pays 1 for a + b, else 0
    advantages = group_advantages(hits + config.reward_shift, config.std_norm)  # [B, G]
    skipped = (advantages == 0).all(-1)  # [B]
    clip_fraction = torch.zeros(len(q_idx))
    for epoch in range(0 if skipped.all() else config.epochs):
        logits = policy.logits[q_idx]  # [B, 13]; pi_theta moves, logp_old and the reference do not
        if epoch > 0:  # before the first update the ratio is 1
            logp_new = log_probs(logits.detach()).gather(-1, answers)  # [B, G]
            clip_fraction += clip_removed(logp_new, logp_old, advantages, config) / config.epochs
        loss = grpo_loss(logits, ref_logits[q_idx], answers, logp_old, advantages, config)
        sgd_step(policy, loss, config.lr)
    return StepStats(hits.mean(-1), skipped, clip_fraction)


def reinforce_step(
    policy: AnswerPolicy, q_idx: Tensor, gold: Tensor, config: Config, generator: Generator = None
) -> StepStats:
    """REINFORCE without a baseline (Williams 1992): minimise -mean_i(r_i log pi(o_i)), in place.

    Same arguments as grpo_step, less the reference: the reward itself stands for the advantage.
    """
    answers, _ = sample_answers(policy, q_idx, config.group, generator)  # [B, G]
    hits = (answers == gold[:, None]).double()  # [B, G]
    logp = log_probs(policy.logits[q_idx]).gather(-1, answers)  # [B, G]
    loss = -(logp * (hits + config.reward_shift)).mean(-1).sum()
    sgd_step(policy, loss, config.lr)
    return StepStats(hits.mean(-1), torch.zeros_like(gold).bool(), torch.zeros(len(gold)))


def train(policy: AnswerPolicy, method: str, config: Config) -> Iterator[StepStats]:
    """Train R banks of 36 rows in place by "grpo" or "reinforce" (ValueError for anything else).

    Yields each step's StepStats, [R]; each run draws its own question. A generator seeded with
    config.seed draws questions, then answers: two methods under one seed share their luck.
    """
    rows = len(policy.logits)
    if method not in ("grpo", "reinforce") or rows == 0 or rows % N_Q:
        raise ValueError(f"train grpo or reinforce on n * {N_Q} rows, not {method} on {rows}")
    runs, gold = rows // N_Q, build_bank()[1]
    ref_logits = policy.logits.detach().clone()  # frozen
    generator = torch.Generator().manual_seed(config.seed)
    for _ in range(config.steps):
        q = torch.randint(N_Q, (runs,), generator=generator)  # [R], a question per run
        q_idx = N_Q * torch.arange(runs) + q  # [R], its row
        if method == "grpo":
            yield grpo_step(policy, ref_logits, q_idx, gold[q], config, generator)
        else:
            yield reinforce_step(policy, q_idx, gold[q], config, generator)


def addition_table(policy: AnswerPolicy) -> str:
    """Run 0's likeliest answers, a down and b across; ? where no group has had a signal yet."""
    cells = [row.argmax().item() if row.any() else "?" for row in policy.logits[:N_Q]]
    lines = [["a\\b", *range(N_B)]] + [[a, *cells[N_B * a : N_B * (a + 1)]] for a in range(N_A)]
    return "\n".join("".join(f"{cell:>5}" for cell in line) for line in lines)


def compare(config: Config) -> dict[str, Tensor]:
    """Train both methods side by side, print their progress; returns the final figures, [R] each.

    Accuracies 0..1; skipped: share of GRPO's groups without a signal; KL to the start, in nats.
    """
    print(f"{'GRPO':>24}{'REINFORCE':>22}{'GRPO groups skipped':>26}")
    print("  step" + "    sampled     greedy" * 2 + "  all-wrong  all-right", flush=True)
    gold = build_bank()[1].repeat(config.runs, 1)  # [R, 36]
    policies = {name: AnswerPolicy(gold.numel()) for name in ("GRPO", "REINFORCE")}
    trained = [train(policy, name.lower(), config) for name, policy in policies.items()]
    sums = seen = torch.zeros(3, config.runs)  # groups all wrong, all right; clip fraction
    every = max(1, config.steps // 10)
    for step, (stats, _) in enumerate(zip(*trained, strict=True), 1):
        sums = sums + torch.stack([stats.hit_rate == 0, stats.hit_rate == 1, stats.clip_fraction])
        if step % every == 0:
            row = [f(p, gold) for p in policies.values() for f in (sampled_accuracy, accuracy)]
            row += (sums - seen)[:2].mean(-1) / every
            print(f"{step:6}" + "".join(f"{x.mean():11.3f}" for x in row), flush=True)
            seen = sums
    print(f"\nWhat GRPO learned in run 0 (? nothing yet):\n{addition_table(policies['GRPO'])}\n")
    final = {}
    for name, policy in policies.items():
        final[f"{name} sampled"] = sampled_accuracy(policy, gold)
        final[f"{name} greedy"] = accuracy(policy, gold)
    final["GRPO - REINFORCE sampled"] = final["GRPO sampled"] - final["REINFORCE sampled"]
    final["GRPO skipped all-wrong"], final["GRPO skipped all-right"] = sums[:2] / config.steps
    for name, policy in policies.items():
        kl = kl_to_reference(policy.logits.detach(), torch.zeros(N_ANS))  # [R * 36]
        final[f"{name} KL"] = kl.view(gold.shape).mean(-1)
    final["GRPO clip fraction"] = sums[2] / (config.steps - sums[:2].sum(0)).clamp(min=1)
    return final


def parse_config(argv: Sequence[str] | None) -> Config:
    """Read the flags; a bad one ends the program with its name, its range and exit status 2."""
    parser = argparse.ArgumentParser(
        description="Train GRPO and REINFORCE on 36 sums a+b under the same luck; compare them.",
        usage="from_scratch.py [--help] [--FLAG VALUE ...]",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        allow_abbrev=False,
    )
    for f in fields(Config):
        how: dict[str, Any] = {"type": int if isinstance(f.default, int) else float, "metavar": "N"}
        if isinstance(f.default, bool):
            how = {"action": argparse.BooleanOptionalAction}
        flag = "--" + f.name.replace("_", "-")
        parser.add_argument(flag, default=f.default, help=f.metadata["meaning"], **how)
    try:
        return Config(**vars(parser.parse_args(argv)))
    except ValueError as error:
        parser.error(str(error))


def main(argv: Sequence[str] | None = None) -> int:
    """Train and report. Returns 0, or 130 after Ctrl-C, 1 where the reader of a pipe has left."""
    config = parse_config(argv)
    torch.set_num_threads(1)  # tensors this small are faster on one
    try:
        for label, values in compare(config).items():
            half = f" +/- {1.96 * values.std() / config.runs**0.5:.3f}" if config.runs > 1 else ""
            print(f"{label:<27}{values.mean():.3f}{half}")
        print("\nCompare the sampled accuracies: greedy only counts the sums that were ever hit.")
        sys.stdout.flush()
        return 0
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the flush at exit
        return 1


if __name__ == "__main__":
    sys.exit(main())
