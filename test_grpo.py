# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "numpy", "matplotlib"]
# ///
"""Tests, figures, and the grader of the drill.

    python test_grpo.py                  test from_scratch.py, then draw both figures
    python test_grpo.py --blank mine.py  write the exercise: from_scratch.py without its bodies
    python test_grpo.py mine.py          grade it (and draw its curves)

`pytest test_grpo.py` runs the same tests. They look only at the names that from_scratch.py gives
the world, never at how it does things: your own way of writing it is as good.
"""

from __future__ import annotations

import argparse
import ast
import concurrent.futures
import contextlib
import doctest
import functools
import importlib.util
import io
import itertools
import math
import os
import re
import signal
import sys
import traceback
import unittest
import unittest.mock
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.autograd import gradcheck
from torch.optim.sgd import sgd

HERE = Path(__file__).resolve().parent
ORIGINAL, README = HERE / "from_scratch.py", HERE / "README.md"
REFUSALS = (ValueError, TypeError, RuntimeError)
SECONDS = 20  # per test: an endless loop in a graded file ends here
GOLD = torch.tensor([a + b for a in range(6) for b in range(6)])
torch.set_num_threads(1)  # tensors this small are faster on one


# ------------------------------------------------------------------------ the file under test


@contextlib.contextmanager
def time_limit(seconds: int):
    """Raise TimeoutError in the block after `seconds`, where the platform has SIGALRM."""

    def ring(*_):
        raise TimeoutError(f"longer than {seconds} s: an endless loop?")

    if not hasattr(signal, "SIGALRM"):
        yield
        return
    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def load(path: Path) -> ModuleType:
    """Import the file at `path`, silently; ImportError, in one line, for whatever it raises."""
    name = path.name  # "mine.py" can shadow no module
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader=None))
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look there
    try:
        code = compile(path.read_bytes(), path, "exec")
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), time_limit(SECONDS):
            exec(code, module.__dict__)
    except (Exception, SystemExit) as error:
        raise ImportError(f"{path}: {explain(error, path)}") from error
    return module


def explain(error: BaseException, path: Path) -> str:
    """One line: where in the file at `path` the error arose, and what it is."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    place = f"line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""
    text = str(error).strip().split("\n")[0]
    if isinstance(error, NotImplementedError):
        return f"{place}not written yet"
    if isinstance(error, AssertionError):
        return text
    return f"{place}{type(error).__name__}: {text}"


grpo: Any = None if __name__ == "__main__" else load(ORIGINAL)  # main() loads what it is told to


# ------------------------------------------------------------------------ how tests speak


class Case(unittest.TestCase):
    """A silent test with a time limit, whose failure names the likely mistake in one line."""

    longMessage = False
    seconds = SECONDS

    def setUp(self):
        self.enterContext(contextlib.redirect_stdout(self.enterContext(open(os.devnull, "w"))))
        self.enterContext(time_limit(self.seconds))

    def close(self, got, want, hint, mistakes=None, tol=1e-6):
        """Fail where `got` is not `want`: name the mistake whose value it is, or give `hint`."""
        got, want = tensor(got), tensor(want)
        if near(got, want, tol):
            return
        named = [name for name, value in (mistakes or {}).items() if near(got, tensor(value), tol)]
        self.fail(f"{[*named, hint][0]} ({difference(got, want)})")

    def same(self, got, want, hint):
        """Fail where two tensors differ in a single bit."""
        self.assertTrue(torch.equal(got, want), hint)

    def refuses(self, error, function, *args, hint):
        """Fail where function(*args) does not raise `error`; return its message."""
        with self.assertRaises(REFUSALS if error in REFUSALS else error, msg=hint) as caught:
            function(*args)
        return str(caught.exception)

    def within(self, values, expected, hint, errors=5.0):
        """Fail where the mean of `values` is not within so many standard errors of `expected`."""
        values = tensor(values)
        error = float(values.std()) / len(values) ** 0.5
        gap = abs(float(values.mean()) - expected)
        self.assertLessEqual(gap, errors * error + 1e-4, f"{hint} (got {values.mean():.4f}, "
                             f"expected {expected:.4f}, standard error {error:.4f})")  # fmt: skip


def tensor(values) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64).detach()


def near(a: torch.Tensor, b: torch.Tensor, tol: float) -> bool:
    return a.shape == b.shape and bool(((a - b).abs() <= tol * (1 + b.abs())).all())


def difference(got: torch.Tensor, want: torch.Tensor) -> str:
    """Both in short, or where they differ most."""
    if got.shape != want.shape:
        return f"shape {list(got.shape)}, expected {list(want.shape)}"
    if got.numel() <= 8:
        return " ".join(f"got {got.numpy().round(6)}, expected {want.numpy().round(6)}".split())
    at = np.unravel_index(int((got - want).abs().nan_to_num(math.inf).argmax()), got.shape)
    return f"got {got[at]:.6g}, expected {want[at]:.6g} at {[int(i) for i in at]}"


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=rng(seed), dtype=torch.float64)


def softmax(logits) -> np.ndarray:
    logits = np.asarray(logits, float)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def random_table(rows: int, seed: int = 0):
    """A policy in which no two answers are equally likely."""
    policy = grpo.AnswerPolicy(rows)
    policy.logits.data.copy_(normal(rows, 13, seed=seed))
    return policy


def numbers(policy) -> np.ndarray:
    return policy.logits.detach().double().numpy().copy()


class Record(NamedTuple):
    """The state after a step, a value per run: each tensor is [R]."""

    accuracy: torch.Tensor
    sampled_accuracy: torch.Tensor
    kl: torch.Tensor  # to the table at the start
    stats: Any


def records(policy, method: str, config):
    """Train, and yield a Record after each step."""
    ref, gold = policy.logits.detach().clone(), GOLD.repeat(len(policy.logits) // 36, 1)
    for stats in grpo.train(policy, method, config):
        kl = grpo.kl_to_reference(policy.logits.detach(), ref).view(gold.shape).mean(-1)
        scores = grpo.accuracy(policy, gold), grpo.sampled_accuracy(policy, gold)
        yield Record(*scores, kl, stats)


@functools.cache
def trained(method: str, **settings) -> tuple[Any, list]:
    """(policy, records) of 64 runs; equal settings are trained once."""
    policy = grpo.AnswerPolicy(36 * 64)
    return policy, list(records(policy, method, grpo.Config(**settings)))


def last(method: str, **settings):
    return trained(method, **settings)[1][-1]


def by_hand(table, ref, rows, answers, gold, config, refresh=False, kl_sign=1, share=1):
    """grpo_step in plain numbers, an answer at a time -> (table, clip fraction, ratios outside)."""
    table, clipped, outside = table.copy(), np.zeros(len(rows)), np.zeros(len(rows))
    high = 1 + (config.clip_eps if config.clip_eps_high is None else config.clip_eps_high)
    for b, row in enumerate(rows):
        r = (answers[b] == gold[b]) + config.reward_shift
        if r.std() < 1e-6:
            continue
        advantages = (r - r.mean()) / (r.std() + 1e-8 if config.std_norm else 1)
        p_old = softmax(table[row])
        for _ in range(config.epochs):
            p = softmax(table[row])
            p_old = p if refresh else p_old
            log_ratio = np.log(p / softmax(ref[row]))
            # d KL / d logit_j = p_j (log(p_j / ref_j) - KL)
            gradient = kl_sign * config.kl_beta * p * (log_ratio - p @ log_ratio)
            for answer, a in zip(answers[b], advantages, strict=True):
                ratio = p[answer] / p_old[answer]
                up, down = ratio > high, ratio < 1 - config.clip_eps
                outside[b] += (up or down) / len(r) / config.epochs
                if (a > 0 and up) or (a < 0 and down):
                    clipped[b] += 1 / len(r) / config.epochs
                else:  # d log p(answer) / d logit_j = [j = answer] - p_j
                    gradient -= ratio * a * (np.eye(13)[answer] - p) / len(r)
            table[row] -= share * config.lr * gradient
    return table, clipped, outside


def expected_push(p: float, group: int = 8) -> float:
    """Mean move of the right logit at lr 1, over k hits of G: k/G (1 - k/G) / std, where the
    std is sqrt(k/G (1 - k/G))."""
    hits = [(k / group, math.comb(group, k) * p**k * (1 - p) ** (group - k)) for k in range(group)]
    return sum(chance * math.sqrt(h * (1 - h)) for h, chance in hits)


def measured_push(method: str, p: float, rows: int = 20000, **settings) -> torch.Tensor:
    """The move of the right logit in one step at lr 1, in many rows that know it with p, [rows]."""
    policy, q_idx = grpo.AnswerPolicy(rows), torch.arange(rows)
    policy.logits.data[:, 0] = math.log(12 * p / (1 - p))
    start, gold = policy.logits.detach().clone(), torch.zeros_like(q_idx)
    config = grpo.Config(lr=1.0, kl_beta=0.0, **settings)
    if method == "grpo":
        grpo.grpo_step(policy, start, q_idx, gold, config, rng())
    else:
        grpo.reinforce_step(policy, q_idx, gold, config, rng())
    return (policy.logits.detach() - start)[:, 0]


# ------------------------------------------------------------------------ the tests


class TestConfig(Case):
    DEFAULTS = {
        "steps": 120, "runs": 64, "group": 8, "lr": 4.0, "epochs": 1, "clip_eps": 0.2,
        "clip_eps_high": None, "kl_beta": 0.02, "std_norm": True, "reward_shift": 0.0, "seed": 42,
    }  # fmt: skip

    def test_defaults_are_fixed_and_frozen(self):
        self.assertEqual(vars(grpo.Config()), self.DEFAULTS, f"the defaults are {self.DEFAULTS}")
        self.refuses(AttributeError, setattr, grpo.Config(), "lr", 1.0, hint="use frozen=True")

    def test_values_off_the_rules_are_refused_by_name(self):
        nan, inf = math.nan, math.inf
        bad = {
            "steps": (0, -1, 2e9), "runs": (0, 2e6), "group": (1, 2e6), "epochs": (0, 2e6),
            "lr": (0.0, -1, nan, inf, 1e39), "clip_eps": (-0.1, 2, nan),
            "clip_eps_high": (-0.1, inf, nan), "kl_beta": (-1e-9, inf, nan), "std_norm": (2, -1),
            "reward_shift": (inf, -inf, nan, 2e9), "seed": (-1, 2e18),
        }  # fmt: skip
        for field, value in ((field, value) for field, values in bad.items() for value in values):
            hint = f"Config({field}={value!r}) must raise a ValueError that names {field}"
            make = functools.partial(grpo.Config, **{field: value})
            message = self.refuses(ValueError, make, hint=hint)
            self.assertRegex(message, rf"^{field} must be from \S+ to \S+, not ", hint)

    def test_the_ends_of_each_range_are_accepted(self):
        ends = {
            "steps": (1, 10**9), "runs": (1, 10**6), "group": (2, 10**6), "epochs": (1, 10**6),
            "lr": (1e-9, 1e6), "clip_eps": (0, 1), "clip_eps_high": (None, 0, 1e9),
            "kl_beta": (0, 1e6), "std_norm": (True, False), "reward_shift": (-1e9, 1e9, 0.5),
            "seed": (0, 10**18),
        }  # fmt: skip
        for field, value in ((field, value) for field, values in ends.items() for value in values):
            self.assertEqual(getattr(grpo.Config(**{field: value}), field), value)


class TestBank(Case):
    def test_question_6a_plus_b_asks_for_a_plus_b(self):
        self.assertEqual((grpo.N_A, grpo.N_B, grpo.N_Q, grpo.N_ANS), (6, 6, 36, 13))
        questions, gold = grpo.build_bank()
        self.assertEqual((questions.dtype, gold.dtype), (torch.int64,) * 2, "use int64 tensors")
        self.close(questions, np.arange(36), "questions must be 0..35, in order")
        a, b = np.divmod(np.arange(36), 6)
        mistakes = {"gold is a + b, not a * b": a * b, "a and b are 0..5, not 1..6": a + b + 2}
        self.close(gold, a + b, "gold must be a + b for question 6a + b", mistakes)


class TestPolicy(Case):
    def test_it_is_a_table_of_zeros_that_can_learn(self):
        names = [name for name, _ in grpo.AnswerPolicy().named_parameters()]
        self.assertEqual(names, ["logits"], "logits must be an nn.Parameter, and the only one")
        zeros = "logits must start at zero, one row per question"
        self.close(grpo.AnswerPolicy().logits, np.zeros((36, 13)), zeros)
        self.close(grpo.AnswerPolicy(5, 3).logits, np.zeros((5, 3)), zeros)

    def test_dist_is_the_softmax_of_the_rows_asked_for(self):
        policy = random_table(36)
        one, many = policy.dist(7), policy.dist(torch.tensor([7, 0, 7]))
        self.assertIsInstance(one, torch.distributions.Categorical, "return a Categorical")
        self.close(one.probs, softmax(numbers(policy))[7], "dist(int): the softmax of that row")
        self.close(many.probs, softmax(numbers(policy))[[7, 0, 7]], "dist([B]): B rows")

    def test_a_row_learns_alone(self):
        policy, gradient = grpo.AnswerPolicy(), np.zeros((36, 13))
        policy.dist(torch.tensor([3])).log_prob(torch.tensor([5])).sum().backward()
        gradient[3] = np.eye(13)[5] - 1 / 13  # [j = answer] - p_j
        self.close(policy.logits.grad, gradient, "each question must have a row of its own")


class TestAccuracy(Case):
    def test_ties_are_shared_out(self):
        # The other 35 rows are ties of 13: 1/13 each. Row 0, whose right answer is 0, is in turn
        # untouched, right, in a tie of two, in a tie of two wrong ones, wrong.
        rows = ([], 1 / 13), ([0], 1), ([0, 4], 1 / 2), ([3, 4], 0), ([4], 0)
        for best, score in rows:
            policy = grpo.AnswerPolicy()
            policy.logits.data[0, best] = 1.0
            got, want = grpo.accuracy(policy, GOLD), (35 / 13 + score) / 36
            first = (1 + (min(best, default=0) == 0)) / 36 - 1 / 36
            mistakes = {
                "argmax calls an untouched row answer 0: a k-way tie counts 1/k": first,
                "a tie is not right: a k-way tie counts 1/k": (1 + 35 * (not best)) * score / 36,
            }
            self.close(got, want, f"answers {best} lead: a k-way tie counts 1/k", mistakes)

    def test_each_run_has_its_own_scores(self):
        policy, gold = random_table(72), GOLD.repeat(2, 1)
        p = softmax(numbers(policy)).reshape(2, 36, 13)
        right = np.take_along_axis(p, gold.numpy()[..., None], -1)[..., 0]
        greedy, sampled = (right == p.max(-1)).mean(-1), right.mean(-1)
        hint = "gold [R, 36] with R * 36 rows gives [R]"
        self.close(grpo.accuracy(policy, gold), greedy, f"accuracy: {hint}")
        mistakes = {"sampled accuracy is the mean probability of the right answer": greedy}
        self.close(grpo.sampled_accuracy(policy, gold), sampled, f"sampled: {hint}", mistakes)
        one = grpo.AnswerPolicy()
        one.logits.data.copy_(policy.logits[:36])
        self.close(grpo.sampled_accuracy(one, GOLD), sampled[0], "gold [36] gives a scalar")
        self.assertFalse(
            grpo.sampled_accuracy(one, GOLD).requires_grad, "a score needs no gradient"
        )

    def test_rows_and_gold_of_different_number_are_refused(self):
        for score, gold in itertools.product((grpo.accuracy, grpo.sampled_accuracy), (35, 72)):
            hint = f"{gold} right answers for 36 rows must raise an error"
            args = (grpo.AnswerPolicy(), torch.zeros(gold, dtype=torch.int64))
            self.refuses(RuntimeError, score, *args, hint=hint)


class TestGroupAdvantages(Case):
    def test_a_z_score_by_hand(self):
        # one hit in 8: mean 1/8, std sqrt(7)/8 -> (7/8) / std = sqrt(7), (-1/8) / std = -1/sqrt(7)
        r = np.eye(8)[0]
        mistakes = {
            "divide by the population std: torch's `std` needs `correction=0`": (r - 1 / 8)
            / r.std(ddof=1),
            "divide by the std, not by the variance": (r - 1 / 8) / r.var(),
            "subtract the group's mean": r / r.std(),
            "divide by the std": r - 1 / 8,
            "the sign is wrong: a hit is better than the mean": (1 / 8 - r) / r.std(),
        }
        want = [7**0.5] + [-(7**-0.5)] * 7
        self.close(grpo.group_advantages(r), want, "(r - mean) / std", mistakes)
        self.close(grpo.group_advantages([1, 0, 1, 0]), [1, -1, 1, -1], "mean 1/2, std 1/2")
        # verl: sample std, eps 1e-6
        verl = grpo.group_advantages(r)[:2] * (7 / 8) ** 0.5
        self.close(verl, [2.4748667, -0.3535524], "ours * sqrt((G - 1) / G) is verl's", tol=1e-5)

    def test_groups_are_the_last_dimension_and_do_not_mix(self):
        r = np.random.default_rng(0).normal(3, 5, (4, 5, 8))
        centred = r - r.mean(-1, keepdims=True)
        z = centred / r.std(-1, keepdims=True)
        mistakes = {
            "statistics belong to each group, not to the whole batch": (r - r.mean()) / r.std(),
            "statistics run over the last dimension, not over the first": (r - r.mean(0))
            / r.std(0),
        }
        self.close(grpo.group_advantages(r), z, "z-score over the last dimension", mistakes)
        ignored = {"std_norm=False must not divide by the std": z}
        self.close(grpo.group_advantages(r, std_norm=False), centred, "std_norm=False", ignored)
        self.same(grpo.group_advantages(r[:1]), grpo.group_advantages(r)[:1], "groups do not mix")

    def test_shift_scale_and_order_do_not_matter(self):
        r = np.random.default_rng(1).normal(size=(3, 8))
        want, order = grpo.group_advantages(r), np.random.default_rng(2).permutation(8)
        self.close(grpo.group_advantages(7 * r - 100), want, "shift and scale must not matter")
        self.close(grpo.group_advantages(-r), -want, "turning the rewards must turn the advantages")
        self.close(grpo.group_advantages(r[:, order]), want[:, order], "order must not matter")

    def test_equal_rewards_are_exactly_zero(self):
        def kinds(value, size):
            yield [value] * size
            yield np.full((2, size), value)
            yield torch.full((2, 3, size), value, dtype=torch.float64)
            if abs(value) < 6e4:
                yield np.full(size, value, np.float32)
                yield [int(value)] * size
                yield [bool(value)] * size
                for dtype in (
                    torch.float32,
                    torch.float16,
                    torch.bfloat16,
                    torch.int64,
                    torch.bool,
                ):
                    yield torch.full((2, 3, size), value).to(dtype)

        values = (0, 1, 0.1, 0.7, 1 / 3, 1e-9, -7.3, 1e6 + 0.1)
        for value, size, std_norm in itertools.product(values, (1, 2, 3, 7, 8, 64), (True, False)):
            for rewards in kinds(value, size):
                got = grpo.group_advantages(rewards, std_norm)
                hint = f"{size} equal rewards of {value}: no signal, exactly 0"
                self.assertTrue(bool((got == 0).all()), f"{hint}, not {got.flatten()[0]}")

    def test_a_std_below_1e_6_is_no_signal(self):
        for std_norm in (True, False):
            got = grpo.group_advantages([0, 1.8e-6], std_norm)
            self.close(got, [0, 0], "std 9e-7: exactly 0", tol=0)
        got, want = grpo.group_advantages([0, 2.2e-6]), 1.1e-6 / (1.1e-6 + 1e-8)
        self.close(got, [-want, want], "std 1.1e-6 is a signal: divide by std + 1e-8", tol=1e-5)

    def test_every_type_is_read_at_its_own_precision(self):
        for rewards in ([1e8, 1e8 + 1], np.array([1e8, 1e8 + 1]), torch.tensor([10**8, 10**8 + 1])):
            hint = "compute in float64 from the given values: float32 cannot hold 1e8 + 1"
            self.close(grpo.group_advantages(rewards), [-1, 1], hint)
        for dtype in (torch.int64, torch.bool, torch.float16, torch.bfloat16, torch.float64):
            got = grpo.group_advantages(torch.tensor([1, 0, 0, 1]).to(dtype))
            self.close(got, [1, -1, -1, 1], f"rewards may be {dtype}")
            self.assertEqual(got.dtype, torch.float32, "advantages are float32")
        rewards = torch.tensor([1.0, 0.0], requires_grad=True)
        self.assertFalse(grpo.group_advantages(rewards).requires_grad, "advantages are constants")

    def test_rewards_that_mean_nothing_are_refused(self):
        nan, inf = math.nan, math.inf
        bad = ([], 1.0, torch.tensor(2.0), np.zeros((3, 0)), [nan, 1], [inf, 0], [0, -inf],
               [inf, inf], [nan], [[1, 0], [nan, 0]])  # fmt: skip
        for rewards, std_norm in itertools.product(bad, (True, False)):
            hint = f"group_advantages({rewards}) must raise ValueError"
            self.refuses(ValueError, grpo.group_advantages, rewards, std_norm, hint=hint)


class TestSampleAnswers(Case):
    def test_it_returns_answers_and_their_log_probabilities(self):
        policy, q_idx = random_table(36), torch.tensor([4, 30, 4])
        answers, logp_old = grpo.sample_answers(policy, q_idx, 20, rng())
        self.assertEqual((answers.shape, answers.dtype), ((3, 20), torch.int64), "answers [B, G]")
        logp = np.log(softmax(numbers(policy)))[q_idx[:, None], answers]
        self.close(logp_old, logp, "logp_old[b, g] must be log pi(answers[b, g]) in row q_idx[b]")
        self.assertFalse(logp_old.requires_grad, "logp_old must be a constant: no gradient")

    def test_each_answer_is_drawn_on_its_own_from_the_policy(self):
        policy, n = random_table(2), 40000
        answers, _ = grpo.sample_answers(policy, torch.tensor([1, 0]), n, rng())
        for p, drawn in zip(softmax(numbers(policy))[[1, 0]], answers, strict=True):
            share = np.bincount(drawn, minlength=13) / n
            hint = "draw answers from softmax(logits) of the row"
            if share.max() == 1:
                hint = "sample: not the likeliest answer, and not one answer for the whole group"
            if np.abs(share - 1 / 13).max() < 0.01:
                hint = "draw from the policy, not uniformly"
            self.assertLess((np.abs(share - p) / np.sqrt(p * (1 - p) / n)).max(), 5, hint)
        pairs, _ = grpo.sample_answers(policy, torch.zeros(4000, dtype=torch.int64), 2, rng())
        p, equal = softmax(numbers(policy))[0], (pairs[:, 0] == pairs[:, 1]).double()
        self.within(equal, p @ p, "two draws agree with probability sum p^2: with replacement")

    def test_the_generator_is_the_only_luck(self):
        def draw(seed):
            return grpo.sample_answers(random_table(36), torch.arange(36), 8, rng(seed))[0]

        first, state = draw(1), torch.get_rng_state()
        torch.manual_seed(123)
        self.same(draw(1), first, "draw from the generator, not from the global random state")
        self.assertFalse(torch.equal(draw(2), first), "another seed must draw other answers")
        torch.set_rng_state(state)
        draw(1)
        self.same(torch.get_rng_state(), state, "leave the global random state alone")
        answers, _ = grpo.sample_answers(random_table(36), torch.arange(36), 8)
        self.assertEqual(answers.shape, (36, 8), "without a generator it draws all the same")


class TestClippedSurrogate(Case):
    def surrogate(self, ratio, advantages, *eps, dtype=torch.float64):
        """(objective, gradient to logp_new) at these ratios, with logp_old -1."""
        logp_new = (torch.tensor(ratio, dtype=dtype).log() - 1).requires_grad_()
        logp_old, a = torch.full_like(logp_new, -1), torch.tensor(advantages, dtype=dtype)
        value = grpo.clipped_surrogate(logp_new, logp_old, a, *eps)
        return value.detach(), torch.autograd.grad(value.sum(), logp_new)[0]

    def test_four_quadrants(self):
        # Outside 0.8..1.2 the clip binds only where the policy has gone far enough already: up
        # for A > 0, down for A < 0. Elsewhere d (ratio * A) / d logp_new = ratio * A.
        ratio, a = np.array([0.5, 0.5, 1.5, 1.5]), np.array([1.0, -1.0, 1.0, -1.0])

        def objective(r, sign=1, pick=np.minimum):
            return sign * pick(r * a, np.clip(r, 0.8, 1.2) * a)

        value, gradient = self.surrogate(ratio.tolist(), a.tolist())
        mistakes = {
            "`min`, not `max`: the surrogate is a lower bound": objective(ratio, pick=np.maximum),
            "take the `min` with the unclipped product": np.clip(ratio, 0.8, 1.2) * a,
            "nothing is clipped": ratio * a,
            "the ratio is upside down: pi_theta / pi_old": objective(1 / ratio),
            "ratio = exp(logp_new - logp_old), not logp_new / logp_old": objective(
                1 - np.log(ratio)
            ),
            "no minus sign here: the objective is maximised": objective(ratio, sign=-1),
            "take the `min` of the products, also for A < 0": np.minimum(ratio, 1.2) * a,
        }
        self.close(value, [0.5, -0.8, 1.2, -1.5], "min(ratio * A, clip(ratio) * A)", mistakes)
        self.close(gradient, [0.5, 0, 0, -1.5], "gradient: ratio * A, 0 where the clip binds")

    def test_each_bound_has_its_own_epsilon(self):
        value, _ = self.surrogate([2.0, 0.5, 1.25], [1.0, -1.0, 1.0], 0.2, 0.28)
        mistakes = {
            "clip_eps_high is the upper bound: use it": [1.2, -0.8, 1.2],
            "the bounds are swapped": [1.2, -0.72, 1.2],
            "clip_eps_high moves the upper bound alone": [1.28, -0.72, 1.25],
        }
        self.close(value, [1.28, -0.8, 1.25], "clip to 1 - eps .. 1 + eps_high", mistakes)
        self.close(self.surrogate([2.0, 0.5], [1.0, -1.0], 0.4)[0], [1.4, -0.6], "None: clip_eps")
        self.close(self.surrogate([2.0], [1.0], 0.4, 0.0)[0], [1.0], "clip_eps_high=0 is not None")

    def test_it_is_an_elementwise_lower_bound(self):
        r, a = normal(6, 8).exp().numpy(), normal(6, 8, seed=1).numpy()
        value, _ = self.surrogate(r.tolist(), a.tolist(), 0.1, 0.3)
        want = np.minimum(r * a, np.clip(r, 0.9, 1.3) * a)
        self.close(value, want, "one value per answer, in the shape of the inputs: no mean")
        self.assertTrue((value.numpy() <= r * a + 1e-12).all(), "never above ratio * A")

    def test_at_ratio_one_it_is_the_policy_gradient(self):
        value, gradient = self.surrogate([1.0, 1.0], [2.5, -0.4])
        self.close(value, [2.5, -0.4], "at ratio 1 the value is A")
        self.close(gradient, [2.5, -0.4], "at ratio 1 the gradient to logp_new is A")

    def test_its_gradient_is_that_of_finite_differences(self):
        logp = torch.tensor([-0.5, 0.05, 0.3, -0.1], dtype=torch.float64, requires_grad=True)
        a = torch.tensor([1.0, -2.0, -1.0, 0.5])
        check = functools.partial(grpo.clipped_surrogate, logp_old=torch.zeros(4), advantages=a)
        self.assertTrue(gradcheck(check, (logp,)))

    def test_old_policy_and_advantages_are_constants(self):
        new, old, a = (torch.tensor([0.1, 0.2], requires_grad=True) for _ in range(3))
        grpo.clipped_surrogate(new, old, a).sum().backward()
        for name, constant in (("`logp_old`", old), ("advantages", a)):
            free = constant.grad is None or not constant.grad.any()
            self.assertTrue(free, f"{name} must be a constant: detach it inside")
        self.close(new.grad, [0.1, 0.2], "the gradient to logp_new is ratio * A")

    def test_shapes_that_would_broadcast_are_refused(self):
        for shapes in ([(4,), (4,), (4, 1)], [(4,), (4, 1), (4,)], [(2, 4), (4,), (2, 4)],
                       [(4,), (4,), ()], [(1,), (4,), (4,)]):  # fmt: skip
            hint = f"shapes {shapes} broadcast into a silent bug: raise ValueError"
            self.refuses(ValueError, grpo.clipped_surrogate, *map(torch.zeros, shapes), hint=hint)

    def test_no_log_ratio_is_too_large(self):
        for size, sign, a in itertools.product(
            (5.0, 20.0, 89.0, 800.0, 1e4), (1, -1), (2.6, 0, -2.6)
        ):
            new = torch.tensor([sign * size], requires_grad=True)
            value = grpo.clipped_surrogate(new, torch.zeros(1), torch.tensor([a]))
            (gradient,) = torch.autograd.grad(value.sum(), new)
            hint = f"log-ratio {sign * size}, A {a}: keep it within +-20 before exp"
            self.assertTrue(bool(value.isfinite().all() and gradient.isfinite().all()), hint)


class TestKl(Case):
    P, UNIFORM = torch.tensor([2.0, 0.0, -1.0]).double(), torch.zeros(3).double()

    def test_value_and_gradient_by_hand(self):
        # p = softmax(2, 0, -1) = .844, .114, .042; KL = sum p log(3p); slope p_j (log(3 p_j) - KL)
        logits = self.P.clone().requires_grad_()
        mistakes = {
            "KL(pi_theta || pi_ref): the reference is the second": 0.737900,
            "the sign is wrong: log pi_theta - log pi_ref": -0.574346,
            "logits are not log-probabilities: normalise": float(self.P.softmax(-1) @ self.P),
        }
        kl = grpo.kl_to_reference(logits, self.UNIFORM)
        self.close(kl, 0.574346, "sum p (log p - log ref)", mistakes, tol=1e-5)
        self.assertTrue(kl.requires_grad, "the KL is detached: it must carry a gradient")
        (gradient,) = torch.autograd.grad(kl, logits)
        self.close(gradient, [0.299058, -0.187917, -0.111141], "p (log(p / ref) - KL)", tol=1e-5)
        back = grpo.kl_to_reference(self.UNIFORM, self.P)
        self.close(back, 0.737900, "KL(uniform || p)", tol=1e-5)

    def test_it_is_the_sum_and_what_torch_says(self):
        logits, ref = normal(2, 5, 13), normal(2, 5, 13, seed=1)
        p, q = softmax(logits), softmax(ref)
        got = grpo.kl_to_reference(logits, ref)
        self.close(got, (p * np.log(p / q)).sum(-1), "sum over the last dimension")
        pair = (torch.distributions.Categorical(logits=x) for x in (logits, ref))
        self.close(got, torch.distributions.kl_divergence(*pair), "torch's kl_divergence")
        shifted = grpo.kl_to_reference(logits + 9, ref - 5)
        self.close(shifted, got, "logits are not log-probabilities: a shift must not matter")
        self.assertTrue(gradcheck(grpo.kl_to_reference, (logits.requires_grad_(), ref)))

    def test_a_sure_policy_is_no_nan(self):
        kl = grpo.kl_to_reference(torch.tensor([1e4, 0.0, 0.0]), torch.zeros(3))
        self.close(kl, math.log(3), "one sure answer of three: log 3")


class TestGrpoLoss(Case):
    def setUp(self):
        super().setUp()
        self.answers = torch.tensor([[0, 1, 1, 2], [3, 3, 3, 3], [2, 0, 0, 1]])
        self.advantages = torch.tensor([[3, -1, -1, -1], [0, 0, 0, 0], [1, 0, 0, -1.0]]).double()
        self.logits, self.ref = normal(3, 13).requires_grad_(), normal(3, 13, seed=1)
        self.logp_old = normal(3, 13, seed=2).log_softmax(-1).gather(-1, self.answers)

    def loss(self, rows=slice(None), **settings):
        args = (self.logits, self.ref, self.answers, self.logp_old, self.advantages)
        return grpo.grpo_loss(*(x[rows] for x in args), grpo.Config(**settings))

    def parts(self, eps=0.2, high=0.2):
        """(mean surrogate [3], KL [3]) by numpy."""
        p, q, a = softmax(self.logits.detach()), softmax(self.ref), self.advantages.numpy()
        ratio = np.take_along_axis(p, self.answers.numpy(), -1) / np.exp(self.logp_old.numpy())
        surrogate = np.minimum(ratio * a, np.clip(ratio, 1 - eps, 1 + high) * a).mean(-1)
        return surrogate, (p * np.log(p / q)).sum(-1)

    def test_sum_over_questions_of_beta_kl_minus_mean_surrogate(self):
        surrogate, kl = self.parts()
        penalty = 0.5 * kl * [1, 0, 1]
        want = (penalty - surrogate).sum()
        mistakes = {
            "the surrogate is maximised: loss = - surrogate": (penalty + surrogate).sum(),
            "the KL is a penalty: + beta * KL": (-penalty - surrogate).sum(),
            "a group without a signal adds nothing, not even KL": (0.5 * kl - surrogate).sum(),
            "mean over the group's answers, not sum": (penalty - 4 * surrogate).sum(),
            "sum over the questions, not mean": want / 3,
            "sum over the questions, not mean over those that count": want / 2,
            "beta is ignored": (2 * penalty - surrogate).sum(),
            "beta must be config.kl_beta": (0.04 * penalty - surrogate).sum(),
            "the KL is missing": -surrogate.sum(),
        }
        got = self.loss(kl_beta=0.5)
        self.close(got, want, "sum_b beta * KL_b - mean_i surrogate_bi, a scalar", mistakes)

    def test_both_clips_come_from_the_config(self):
        mistakes = {
            "config.clip_eps_high is ignored": -self.parts(0.1, 0.1)[0].sum(),
            "config.clip_eps is ignored": -self.parts(0.2, 0.5)[0].sum(),
        }
        got = self.loss(kl_beta=0.0, clip_eps=0.1, clip_eps_high=0.5)
        self.close(got, -self.parts(0.1, 0.5)[0].sum(), "clip to 0.9 .. 1.5", mistakes)

    def test_at_ratio_one_the_loss_is_zero_and_its_gradient_is_not(self):
        self.logp_old = self.logits.detach().log_softmax(-1).gather(-1, self.answers)
        loss = self.loss(kl_beta=0.0)
        self.close(loss, 0, "at ratio 1 the loss is minus the mean advantage: 0")
        (gradient,) = torch.autograd.grad(loss, self.logits)
        onehot = np.eye(13)[self.answers] - softmax(self.logits.detach())[:, None]
        want = -(self.advantages.numpy()[..., None] * onehot).mean(1)
        hint = "the gradient is -mean_i A_i ([j = o_i] - p_j)"
        self.close(gradient, want, hint, {"the sign of the gradient is wrong": -want})

    def test_the_kl_term_has_a_gradient(self):
        with_kl, without = (
            torch.autograd.grad(self.loss(kl_beta=beta), self.logits)[0] for beta in (0.5, 0.0)
        )
        p, q, (_, kl) = softmax(self.logits.detach()), softmax(self.ref), self.parts()
        want = 0.5 * p * (np.log(p / q) - kl[:, None]) * [[1], [0], [1]]
        mistakes = {"the KL is detached": 0 * want}
        self.close(with_kl - without, want, "beta * p (log(p / ref) - KL)", mistakes)
        self.assertTrue(gradcheck(lambda x: grpo.grpo_loss(x, self.ref, self.answers, self.logp_old,
                        self.advantages, grpo.Config(kl_beta=0.5)), (self.logits,)))  # fmt: skip

    def test_without_any_signal_loss_and_gradient_are_zero(self):
        loss = self.loss(rows=slice(1, 2), kl_beta=0.5)
        (gradient,) = torch.autograd.grad(loss, self.logits)
        self.close(loss, 0, "no signal: the loss is 0, without KL", tol=0)
        self.close(gradient, np.zeros((3, 13)), "no signal: the gradient is 0", tol=0)

    def test_only_the_policy_gets_a_gradient(self):
        constants = {
            "`logp_old`": self.logp_old, "advantages": self.advantages
        }  # fmt: skip
        for constant in constants.values():
            constant.requires_grad_()
        self.loss(kl_beta=0.5).backward()
        for name, x in constants.items():
            self.assertTrue(x.grad is None or not x.grad.any(), f"{name} must be a constant")


class TestSgdStep(Case):
    def test_it_is_torch_sgd(self):
        for lr in (4.0, 0.08):
            policy, weights = random_table(5), normal(5, 13, seed=1).float()
            parameter, theta = policy.logits, policy.logits.detach().clone()
            grpo.sgd_step(policy, (policy.logits * weights).sum(), lr)  # the gradient: weights
            mistakes = {
                "descend: theta minus lr * gradient": theta + lr * weights,
                "lr is ignored": theta - weights,
                "the table must change in place": theta.clone(),
            }
            sgd([theta], [weights], [None], lr=lr, weight_decay=0.0, momentum=0.0, dampening=0.0,
                nesterov=False, maximize=False, foreach=False)  # fmt: skip
            self.close(policy.logits, theta, "theta - lr * gradient", mistakes)
            if lr == 4.0 or grpo.__file__ == str(ORIGINAL):
                self.same(policy.logits.data, theta, "equal to torch.optim.SGD to the last bit")
            self.assertIs(policy.logits, parameter, "the table must stay the same Parameter")
            self.assertTrue(parameter.requires_grad, "the table must go on learning")


class Step:
    ROWS = torch.tensor([5, 0, 3, 1])

    def step(self, method, **settings):
        """One step on a random table of 6 rows -> what went in, as numpy, and what came out."""
        policy, ref = random_table(6, seed=7), random_table(6, seed=8).logits.detach()
        before, config, frozen = numbers(policy), grpo.Config(**settings), ref.clone()
        answers, _ = grpo.sample_answers(policy, self.ROWS, config.group, rng(3))
        gold = answers[:, 0].clone()  # each group has a hit,
        gold[2] = (set(range(13)) - set(answers[2].tolist())).pop()  # but the third has none
        if method == "grpo":
            stats = grpo.grpo_step(policy, ref, self.ROWS, gold, config, rng(3))
        else:
            stats = grpo.reinforce_step(policy, self.ROWS, gold, config, rng(3))
        self.same(ref, frozen, "the reference must not move")
        given = (
            before,
            ref.double().numpy(),
            self.ROWS.numpy(),
            answers.numpy(),
            gold.numpy(),
            config,
        )
        return given, numbers(policy), stats


class TestGrpoStep(Step, Case):
    def test_three_epochs_with_clip_and_kl_by_hand(self):
        settings = {"epochs": 3, "lr": 1.5, "kl_beta": 1.0, "clip_eps": 0.1, "clip_eps_high": 0.15}
        given, got, stats = self.step("grpo", **settings)

        def hand(refresh=False, kl_sign=1, share=1, **other):
            return by_hand(*given[:-1], replace(given[-1], **other), refresh, kl_sign, share)[0]

        table, clipped, outside = by_hand(*given)
        self.assertGreater(min(clipped[[0, 1, 3]]), 0.05)  # the clip is at work
        mistakes = {
            "`logp_old` is the sampling policy's: do not refresh it each epoch": hand(refresh=True),
            "config.epochs is ignored": hand(epochs=1),
            "config.lr is ignored": hand(lr=4.0),
            "config.kl_beta is ignored": hand(kl_beta=0.02),
            "the KL is missing": hand(kl_beta=0.0),
            "the KL is a penalty: its sign is wrong": hand(kl_sign=-1),
            "config.std_norm is ignored": hand(std_norm=False),
            "config.clip_eps is ignored": hand(clip_eps=0.2),
            "config.clip_eps_high is ignored": hand(clip_eps_high=None),
            "sum over the questions, not mean": hand(share=1 / 4),
            "sum over the questions, not mean over those that count": hand(share=1 / 3),
            "mean over the group's answers, not sum": hand(share=8, kl_beta=1 / 8),
            "the table did not change": given[0],
        }
        self.close(got, table, "three epochs on one sample of groups, by hand", mistakes, tol=1e-5)
        hint = "clip_fraction: A > 0 and ratio > 1 + eps_high, or A < 0 and ratio < 1 - eps"
        mistakes = {
            "clip_fraction counts only where the clip removes the gradient: mind A's sign": outside
        }
        self.close(stats.clip_fraction, clipped, hint, mistakes)

    def test_every_setting_acts(self):
        for settings in ({"std_norm": False}, {"group": 3, "kl_beta": 1.0}, {"reward_shift": 1e8},
                         {"epochs": 2, "lr": 1.0}, {"lr": 0.05, "kl_beta": 0.0}):  # fmt: skip
            given, got, _ = self.step("grpo", **settings)
            ignored = {f"{settings} is ignored": by_hand(*given[:-1], grpo.Config())[0]}
            self.close(
                got, by_hand(*given)[0], f"a step with {settings}, by hand", ignored, tol=1e-5
            )

    def test_it_reports_hits_skips_and_clips(self):
        for shift in (0.0, 5.0):
            (_, _, _, answers, gold, _), _, stats = self.step("grpo", reward_shift=shift)
            hits = (answers == gold[:, None]).mean(-1)
            mistakes = {"hit_rate is taken before reward_shift": hits + shift}
            self.close(
                stats.hit_rate, hits, "hit_rate: share of the group that was right", mistakes
            )
            self.assertEqual(stats.skipped.dtype, torch.bool, "skipped is a bool tensor")
            mistakes = {"skipped is inverted": (hits != 0) & (hits != 1)}
            self.close(stats.skipped, hits == 0, "skipped: all advantages are 0", mistakes)
            self.close(
                stats.clip_fraction, [0] * 4, "one update: ratio 1, nothing is clipped", tol=0
            )

    def test_without_any_signal_the_table_is_not_touched(self):
        for right, sure in ((99, 0.0), (4, 99.0)):  # all wrong; all right
            policy, ref = random_table(3), random_table(3, seed=1).logits.detach()
            policy.logits.data[:, 4] += sure
            before, config = policy.logits.detach().clone(), grpo.Config(kl_beta=1.0, lr=1e6)
            gold = torch.full((3,), right)
            stats = grpo.grpo_step(policy, ref, torch.arange(3), gold, config, rng())
            self.assertTrue(bool(stats.skipped.all()), "equal rewards: skipped")
            self.same(policy.logits.data, before, "no signal: nothing moves, not even by the KL")

    def test_the_mean_push_is_that_of_the_enumeration(self):
        for p, value in ((1 / 13, 0.170), (0.9, 0.210)):
            self.close(expected_push(p), value, "the enumeration", tol=1e-3)
            for name, method, settings, push in (
                ("GRPO", "grpo", {}, expected_push(p)),
                ("Dr.GRPO", "grpo", {"std_norm": False}, 7 / 8 * p * (1 - p)),
                ("REINFORCE", "reinforce", {}, p * (1 - p)),
            ):
                hint = f"{name}'s mean push on the right logit at p = {p:.2f}"
                self.within(measured_push(method, p, **settings), push, hint)


class TestReinforceStep(Step, Case):
    def test_a_step_by_hand(self):
        for settings in ({}, {"lr": 0.5}, {"reward_shift": 1.5}, {"group": 3}):
            given, got, stats = self.step("reinforce", **settings)
            before, _, rows, answers, gold, config = given
            p, hits = softmax(before)[rows][:, None], answers == gold[:, None]
            r = hits[..., None] + config.reward_shift
            slope = np.eye(13)[answers] - p  # d log p(o_i) / d logit_j = [j = o_i] - p_j

            def table(push, before=before, rows=rows, lr=config.lr):
                after = before.copy()
                after[rows] += lr * push
                return after

            want = table((r * slope).mean(1))
            mistakes = {
                "mean over the group, not sum": table((r * slope).sum(1)),
                "the sign is wrong: minimise -mean(r * logp)": table(-(r * slope).mean(1)),
                "no baseline here": table(((r - r.mean(1, keepdims=True)) * slope).mean(1)),
                "push what was sampled, not the right answer": table(np.eye(13)[gold] - p[:, 0]),
                "reward_shift is ignored": table((hits[..., None] * slope).mean(1)),
                "config.lr is ignored": table((r * slope).mean(1) * 4 / config.lr),
            }
            hint = f"theta + lr * mean_i r_i grad log pi(o_i), with {settings}"
            self.close(got, want, hint, mistakes, tol=1e-5)
            self.close(stats.hit_rate, hits.mean(-1), "hit_rate: share right, before reward_shift")
            self.assertEqual(
                str(stats.skipped.tolist()), str([False] * 4), "REINFORCE skips nothing"
            )
            self.close(stats.clip_fraction, [0] * 4, "REINFORCE clips nothing", tol=0)


class TestTrain(Case):
    def test_it_yields_what_each_step_saw_of_every_run(self):
        policy, kept = random_table(72), []
        for method in ("grpo", "reinforce"):
            for stats in grpo.train(policy, method, grpo.Config(steps=5)):
                self.assertEqual([x.shape for x in stats], [(2,)] * 3, "a value per run")
                kept += [(x, x.clone()) for x in stats]
        self.assertEqual(len(kept), 10 * 3, "StepStats of each step, config.steps of them")
        unchanged = all(torch.equal(x, copy) for x, copy in kept)
        self.assertTrue(unchanged, "a later step changed earlier StepStats: yield copies")

    def test_the_reference_is_the_table_at_the_start(self):
        policy = random_table(36)
        self.assertTrue(list(grpo.train(policy, "grpo", grpo.Config(steps=300, kl_beta=0.9))))
        moved = float(
            grpo.kl_to_reference(policy.logits.detach(), random_table(36).logits.detach()).mean()
        )
        self.assertLess(moved, 0.75, "the reference is frozen: clone the table at the start")

    def test_unknown_methods_and_broken_tables_are_refused_at_the_first_next(self):
        for rows, method in ((36, "ppo"), (37, "grpo"), (0, "grpo"), (35, "reinforce")):
            steps = grpo.train(grpo.AnswerPolicy(rows), method, grpo.Config())
            self.refuses(ValueError, next, steps, hint=f"{method}, {rows} rows: raise ValueError")

    def test_the_seed_is_the_whole_luck(self):
        def curve(seed):
            steps = records(grpo.AnswerPolicy(72), "grpo", grpo.Config(steps=30, seed=seed))
            return torch.stack([record.sampled_accuracy for record in steps])

        first, state = curve(1), torch.get_rng_state()
        torch.manual_seed(5)
        self.same(curve(1), first, "same seed, same curve, to the bit, whatever ran before")
        self.assertFalse(torch.equal(curve(2), first), "config.seed is ignored")
        torch.set_rng_state(state)
        curve(1)
        self.same(torch.get_rng_state(), state, "leave the global random state alone")

    def test_each_step_draws_a_question_per_run_uniformly(self):
        policy, drawn = grpo.AnswerPolicy(36 * 400), torch.zeros(36)
        before = policy.logits.detach().clone()
        for stats in grpo.train(policy, "reinforce", grpo.Config(steps=10)):
            moved = (policy.logits.detach() != before).any(-1).view(400, 36)
            self.same(moved.sum(-1) > 0, stats.hit_rate > 0, "a run moves by its own hits")
            self.assertLessEqual(int(moved.sum(-1).max()), 1, "one question per run and step")
            drawn += moved.sum(0)
            before = policy.logits.detach().clone()
        error = (drawn / drawn.sum() - 1 / 36).abs() / math.sqrt(35 / 36**2 / float(drawn.sum()))
        self.assertLess(float(error.max()), 5, "draw the 36 questions uniformly")

    def test_greedy_accuracy_is_the_same_for_both_and_has_a_closed_form(self):
        # The right answer of a row leads from its first hit on, whatever the method: the question
        # must be drawn (1/36) and hit (1 - (12/13)^8) in one of 120 steps.
        grpo_curve, reinforce_curve = (
            torch.stack([record.accuracy for record in trained(method)[1]])
            for method in ("grpo", "reinforce")
        )
        self.same(grpo_curve, reinforce_curve, "one seed, one luck: same questions, same answers")
        hit = 1 - (1 - (1 - (12 / 13) ** 8) / 36) ** 120
        self.close(hit + (1 - hit) / 13, 0.811, "the closed form", tol=1e-3)
        self.within(grpo_curve[-1], hit + (1 - hit) / 13, "greedy accuracy after 120 steps")

    def test_sampled_accuracy_separates_the_methods(self):
        for method, settings, expected in (
            ("grpo", {}, 0.611), ("reinforce", {}, 0.333), ("grpo", {"std_norm": False}, 0.290)
        ):  # fmt: skip
            hint = f"sampled accuracy of {method} with {settings} after 120 steps"
            self.within(last(method, **settings).sampled_accuracy, expected, hint, errors=6)

    def test_without_the_std_grpo_is_reinforce_at_a_longer_step(self):
        # Dr.GRPO's mean push is (G - 1)/G of REINFORCE's: at lr 4 * 8/7 they are level.
        level = last("grpo", std_norm=False, lr=4 * 8 / 7).sampled_accuracy
        gap = level - last("reinforce").sampled_accuracy
        self.within(gap, 0, "Dr.GRPO at lr * G / (G - 1) is REINFORCE")

    def test_grpo_ignores_where_rewards_start_and_reinforce_does_not(self):
        for plain, shifted in zip(
            trained("grpo")[1], trained("grpo", reward_shift=1.0)[1], strict=True
        ):
            self.same(plain.sampled_accuracy, shifted.sampled_accuracy, "a z-score sees no shift")
        greedy = last("reinforce", reward_shift=1.0).accuracy
        self.within(greedy, 0.40, "paid 1 and 2, REINFORCE locks into its first samples")

    def test_skipped_groups_are_as_many_as_p_to_the_g_and_its_mirror_predict(self):
        skipped = torch.stack([record.stats.skipped for record in trained("grpo")[1]])  # [120, R]
        expected = predicted_skips()
        self.close(expected[0].mean(), 0.527, "(1/13)^8 + (12/13)^8", tol=1e-3)
        gap = skipped.double().mean(0) - expected.mean(0)
        self.within(gap, 0, "share of groups skipped = mean of p^G + (1-p)^G")

    def test_dynamic_sampling_is_the_plain_run_without_its_skipped_steps(self):
        policy, redrawn = grpo.AnswerPolicy(), grpo.AnswerPolicy()
        config, generator = grpo.Config(steps=200, seed=7), rng(7)
        steps = list(records(policy, "grpo", config))
        plain = [record for record in steps if not record.stats.skipped.all()]
        ref = redrawn.logits.detach().clone()
        for record in plain:
            while True:  # draw a question and a group until the group has a signal, as DAPO does
                q, state = torch.randint(36, (1,), generator=generator), generator.get_state()
                answers, _ = grpo.sample_answers(redrawn, q, 8, generator)
                if 0 < int((answers == GOLD[q]).sum()) < 8:
                    break
            generator.set_state(state)
            grpo.grpo_step(redrawn, ref, q, GOLD[q], config, generator)
            self.same(grpo.accuracy(redrawn, GOLD), record.accuracy[0], "redrawing = skipping")
        self.assertTrue(50 < len(plain) < 150)
        self.same(redrawn.logits, policy.logits, "redrawing ends in the same table, to the bit")


@functools.cache
def predicted_skips() -> torch.Tensor:
    """p^G + (1-p)^G before each step of the default GRPO, mean over the 36 rows, [120, 64]."""
    policy, shares = grpo.AnswerPolicy(36 * 64), []
    for _ in itertools.chain([None], grpo.train(policy, "grpo", grpo.Config())):
        p = policy.logits.detach().softmax(-1).view(64, 36, 13)
        p = p.gather(-1, GOLD.expand(64, 36)[..., None]).double()
        shares.append((p**8 + (1 - p) ** 8).mean((-2, -1)))
    return torch.stack(shares[:-1])


# ------------------------------------------------------------------------ the command line


class ClosedPipe(io.StringIO):
    """A stdout whose reader has left."""

    def __init__(self):
        super().__init__()
        self.descriptor = os.pipe()[1]

    def flush(self):
        raise BrokenPipeError(32, "Broken pipe")

    def fileno(self):
        return self.descriptor


def output(*argv: str, stdout=None) -> tuple[int, str, str]:
    """Run main(argv) -> (exit status, stdout, stderr)."""
    out, err = stdout or io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = grpo.main(list(argv))
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


def figures(text: str) -> dict[str, tuple[float, float]]:
    """The summary in an output: {label: (figure, 95% half-width)}."""
    found = re.findall(r"^(GRPO|REINFORCE)( [-\w ]+?) +(-?\d\.\d+)(?: \+/- (\S+))?", text, re.M)
    return {name + what: (float(mean), float(half or "nan")) for name, what, mean, half in found}


def table_rows(text: str) -> list[list[float]]:
    """The rows of an output, a row every tenth of the steps: step, then six figures."""
    return [
        [float(x) for x in line.split()] for line in re.findall(r"^ *\d+ +0\.\d+ .*$", text, re.M)
    ]


@functools.cache
def summary(flags: str) -> dict[str, tuple[float, float]]:
    """What `python from_scratch.py FLAGS` measures: {label: (figure, 95% half-width)}."""
    with contextlib.redirect_stdout(io.StringIO()):
        final = grpo.compare(grpo.parse_config(flags.split()))
    return {k: (float(v.mean()), 1.96 * float(v.std()) / len(v) ** 0.5) for k, v in final.items()}


class TestMain(Case):
    LABELS = ("GRPO sampled", "GRPO greedy", "REINFORCE sampled", "REINFORCE greedy",
              "GRPO - REINFORCE sampled", "GRPO skipped all-wrong", "GRPO skipped all-right",
              "GRPO KL", "REINFORCE KL", "GRPO clip fraction")  # fmt: skip

    def both(self, **settings):
        config = grpo.Config(**settings)
        return [list(records(grpo.AnswerPolicy(36 * config.runs), method, config))
                for method in ("grpo", "reinforce")]  # fmt: skip

    def test_the_summary_is_what_training_gives(self):
        settings = {"runs": 5, "steps": 60, "group": 3, "lr": 9.0, "epochs": 2, "seed": 3,
                    "clip_eps": 0.3, "clip_eps_high": 0.5, "kl_beta": 0.1,
                    "reward_shift": 0.5}  # fmt: skip
        flags = " ".join(f"--{k.replace('_', '-')} {v}" for k, v in settings.items())
        got = figures(output(*flags.split(), "--no-std-norm")[1])
        grpo_records, reinforce_records = self.both(std_norm=False, **settings)
        a, b, stats = grpo_records[-1], reinforce_records[-1], [r.stats for r in grpo_records]
        skipped, hit, clip = (torch.stack(x).double() for x in zip(*(
            (s.skipped, s.hit_rate, s.clip_fraction) for s in stats), strict=True))  # fmt: skip
        wrong, right = (skipped * (hit == 0)).mean(0), (skipped * (hit == 1)).mean(0)
        self.assertGreater(
            min(right.mean(), clip.mean()), 0.01, "groups all right, answers clipped"
        )
        expected = (a.sampled_accuracy, a.accuracy, b.sampled_accuracy, b.accuracy,
                    a.sampled_accuracy - b.sampled_accuracy, wrong, right, a.kl, b.kl,
                    clip.sum(0) / (1 - skipped).sum(0))  # fmt: skip
        self.assertEqual(tuple(got), self.LABELS, "the labels of the summary")
        for label, values in zip(self.LABELS, expected, strict=True):
            want = float(values.mean()), 1.96 * float(values.std()) / 5**0.5
            self.close(got[label], want, f"{label}: mean and 1.96 sd / sqrt(R)", tol=6e-4)

    def test_one_run_has_no_error_bar(self):
        one = output("--steps", "1", "--runs", "1")[1]  # all wrong under seed 42
        self.assertIn("\nGRPO clip fraction         0.000\n", one)
        self.assertNotIn("+/-", one, "one run has no error bar")
        self.assertEqual(output("--steps", "1", "--runs", "2")[1].count("+/-"), 10)

    def test_a_row_comes_every_tenth_of_the_steps(self):
        rows = table_rows(output("--runs", "2", "--steps", "65")[1])
        self.assertEqual([row[0] for row in rows], list(range(6, 61, 6)), "a row every steps // 10")
        a, b = self.both(runs=2, steps=65)
        for row in rows:
            t = int(row[0])
            since = [record.stats for record in a[t - 6 : t]]
            ends = [
                x.mean() for r in (a[t - 1], b[t - 1]) for x in (r.sampled_accuracy, r.accuracy)
            ]
            skips = [
                np.mean([(s.skipped & (s.hit_rate == k)).float().mean() for s in since])
                for k in (0, 1)
            ]
            self.close(row[1:], ends + skips, f"the row of step {t}", tol=6e-4)
        self.assertEqual(len(table_rows(output("--runs", "1", "--steps", "3")[1])), 3)

    def test_the_frame_around_the_figures(self):
        torch.set_num_threads(2)
        code, text, err = output("--runs", "2", "--kl-beta", "3")
        lines = text.splitlines()
        self.assertEqual((code, err), (0, ""), "a good run: status 0, nothing on stderr")
        self.assertIn("GRPO groups skipped", lines[0])
        heads = ["step", "sampled", "greedy", "sampled", "greedy", "all-wrong", "all-right"]
        self.assertEqual(lines[1].split(), heads)
        self.assertEqual(lines.count(""), 3, "blank lines part rows, table, figures and advice")
        self.assertEqual(lines, [line.rstrip() for line in lines])
        self.assertLessEqual(max(map(len, lines)), 80, "80 columns")
        self.assertTrue(text.isascii(), "ASCII survives every terminal")
        self.assertIn("sampled accurac", lines[-1], "the last line says what to look at")
        self.assertEqual(torch.get_num_threads(), 1, "one thread is faster here")

    def test_the_table_of_run_0(self):
        lines = output("--runs", "1", "--steps", "60", "--seed", "4")[1].splitlines()
        head = next(i for i, line in enumerate(lines) if line.split()[:1] == ["a\\b"])
        self.assertIn("GRPO learned in run 0", lines[head - 1])
        policy = grpo.AnswerPolicy()
        self.assertTrue(list(grpo.train(policy, "grpo", grpo.Config(steps=60, seed=4))))
        best = [str(row.argmax()) if row.any() else "?" for row in numbers(policy)]
        want = [["a\\b", *"012345"]] + [[str(a), *best[6 * a : 6 * a + 6]] for a in range(6)]
        self.assertEqual([line.split() for line in lines[head : head + 7]], want)
        self.assertIn("?", best)

    def test_bad_flags_end_with_the_flag_and_its_rule(self):
        for flags in (
            "--group 1", "--lr nan", "--lr -1", "--steps 0", "--clip-eps 2", "--kl-beta -1",
            "--seed x", "--seed -1", "--wrong 3", "--lr 1e39", "--clip-eps-high -1", "--step 5",
            "--reward-shift inf", "--runs 1.5", "--epochs 0",
        ):  # fmt: skip
            code, out, err = output(*flags.split())
            self.assertEqual((code, out), (2, ""), f"{flags}: exit status 2")
            hint = f"{flags}: a line of usage, and one that names the setting"
            name = flags.split()[0].strip("-").replace("-", "[-_]")
            self.assertRegex(err, rf"\Ausage: [^\n]+\n[^\n]+{name}\b[^\n]+\n\Z", hint)

    def test_help_names_every_flag_and_whom_it_touches(self):
        code, text, _ = output("--help")
        self.assertEqual(code, 0)
        for name, default in TestConfig.DEFAULTS.items():
            flag, grpo_only = name.replace("_", "-"), name in (
                "epochs", "clip_eps", "clip_eps_high", "kl_beta", "std_norm")  # fmt: skip
            entry = re.search(rf"^  --{flag}\b.*?(?=^  --|\Z)", text, re.M | re.S)
            self.assertIsNotNone(entry, f"--{flag} is a flag")
            self.assertEqual("GRPO only" in entry[0], grpo_only, f"--{flag} touches GRPO alone?")
            self.assertIn(f"(default: {default})", " ".join(entry[0].split()))

    def test_a_closed_pipe_ends_quietly(self):
        pipe = ClosedPipe()
        code, _, err = output("--steps", "2", "--runs", "1", stdout=pipe)
        self.assertEqual((code, err), (1, ""), "a closed pipe: status 1, no traceback")
        null = os.stat(os.devnull).st_rdev
        self.assertEqual(os.fstat(pipe.fileno()).st_rdev, null, "nothing is left to flush")

    def test_ctrl_c_says_stopped(self):
        with unittest.mock.patch.object(grpo, "train", side_effect=KeyboardInterrupt):
            self.assertEqual(output("--runs", "1")[::2], (130, "stopped\n"), "Ctrl-C: status 130")


# ------------------------------------------------------------------------ the README

ROW = re.compile(r"^\| `python from_scratch\.py ?(.*?)` \|(.*)\|$")


@functools.cache
def readme() -> list[str]:
    return README.read_text(encoding="utf-8").splitlines()


def measured_rows() -> list[tuple[int, str, dict[str, float]]]:
    """(line number, flags, {label: figure}) of each table row that is a command."""
    rows, heads = [], []
    for number, line in enumerate(readme(), 1):
        if line.startswith("| 命令 / Command |"):
            heads = [cell.strip() for cell in line.strip("|").split("|")[1:]]
        if match := ROW.match(line):
            cells = [float(cell) for cell in match[2].split("|")]
            rows.append((number, match[1], dict(zip(heads, cells, strict=True))))
    return rows


@functools.cache
def measuring() -> dict[str, concurrent.futures.Future]:
    """Start every command of the README, on all cores -> {flags: its summary to come}."""
    pool = concurrent.futures.ProcessPoolExecutor()
    return {
        flags: pool.submit(summary, flags) for flags in dict.fromkeys(r[1] for r in measured_rows())
    }


@functools.cache
def measured() -> dict[str, dict[str, tuple[float, float]]]:
    """{flags: summary} of every command of the README."""
    results, out = {}, sys.__stdout__
    print(f"measuring the README's {len(measuring())} commands ", end="", flush=True, file=out)
    for flags, future in measuring().items():
        results[flags] = future.result()
        print(end=".", flush=True, file=out)
    print(file=out)
    return results


class TestReadme(Case):
    """Every number in README.md is measured again; a failure names its line."""

    seconds = 300

    def setUp(self):
        super().setUp()
        if grpo.__file__ != str(ORIGINAL) or not README.exists():
            self.skipTest("README.md is measured with from_scratch.py beside it")

    def at(self, number, text):
        self.fail(f"README.md:{number}: {text}")

    def test_every_measured_row(self):
        self.assertGreater(len(measured_rows()), 30)
        for number, flags, cells in measured_rows():
            for label, figure in cells.items():
                got = measured()[flags].get(label, (math.nan,))[0]
                if not abs(got - figure) <= 0.02:
                    self.at(number, f"`{flags}` gives {label} {got:.3f}, not {figure}")

    def test_every_doctest(self):
        test = doctest.DocTestParser().get_doctest(
            "\n".join(readme()), {}, "README", "README.md", 0
        )
        failures, runner = [], doctest.DocTestRunner(verbose=False)
        runner.report_failure = lambda out, test, example, got: failures.append((example, got))
        runner.report_unexpected_exception = lambda out, test, example, error: failures.append(
            (example, repr(error[1]))
        )
        self.assertGreater(runner.run(test).attempted, 40)
        for example, got in failures:
            last = example.source.strip().split("\n")[-1].strip()
            self.at(example.lineno + 1, f"`{last}` gives {' '.join(got.split())}")

    def test_the_output_block(self):
        start = readme().index("<!-- output -->") + 2
        block, figure = readme()[start : readme().index("```", start)], re.compile(r"-?\d+\.\d+")
        for number, (old, new) in enumerate(
            zip(block, output()[1].splitlines(), strict=True), start + 1
        ):
            gaps = [abs(float(a) - float(b)) for a, b in
                    zip(figure.findall(old), figure.findall(new), strict=False)]  # fmt: skip
            off = max(gaps, default=0) > 0.02
            if off or figure.sub("#", old) != figure.sub("#", new):
                self.at(number, f"the program prints {new!r}")

    def test_the_charts(self):
        columns = {"step": 0, "GRPO sampled": 1, "greedy, both": 2, "REINFORCE sampled": 3,
                   "all-wrong": 5, "all-right": 6}  # fmt: skip
        rows, found = table_rows(output()[1]), []
        for number, line in enumerate(readme(), 1):
            if match := re.match(r' +(?:x-axis|line) "(.+)" \[(.+)\]', line):
                found.append(match[1])
                for drawn, row in zip(match[2].split(","), rows, strict=True):
                    figure = row[columns[match[1]]]
                    if abs(float(drawn) - figure) > 0.02:
                        self.at(number, f"{match[1]} at step {row[0]:.0f} is {figure}, not {drawn}")
        self.assertEqual(sorted(found), sorted([*columns, "step"]), "README.md: the two charts")

    def test_the_flag_table(self):
        flags = []
        for number, line in enumerate(readme(), 1):
            if match := re.match(r"\| `--([a-z-]+)` \| ([^|]+) \|", line):
                flags.append(match[1].replace("-", "_"))
                default = TestConfig.DEFAULTS.get(flags[-1], "no flag")
                if match[2] != str(default):
                    self.at(number, f"--{match[1]} is {default}, not {match[2]}")
        self.assertEqual(flags, list(TestConfig.DEFAULTS), "README.md: every flag, in order")

    def test_every_figure_in_the_prose_stands_in_a_row_or_a_doctest(self):
        fenced, known, prose = False, set(), []
        for number, line in enumerate(readme(), 1):
            fenced ^= line.startswith("```")
            found = re.findall(r"(?<![\d.:])\d\.\d{3}(?!\d)", line)
            if fenced or ROW.match(line):
                known.update(found)
            elif not line.startswith("| `--"):  # the libraries' defaults
                prose += [(number, figure) for figure in found]
        self.assertGreater(len(prose), 5)
        for number, figure in prose:
            if figure not in known:
                self.at(number, f"{figure} is in no measured row and no doctest")


class TestBlank(Case):
    def test_the_exercise_keeps_signatures_and_docstrings_and_drops_the_bodies(self):
        source = ORIGINAL.read_text(encoding="utf-8")
        kept = {"setting", "__post_init__", "parse_config", "addition_table", "compare", "main"}
        functions = [
            {
                node.name: node
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.FunctionDef)
            }
            for text in (source, blank(source))
        ]
        for name, before in functions[0].items():
            after = functions[1][name]
            self.assertEqual(ast.unparse(before.args), ast.unparse(after.args))
            self.assertEqual(ast.get_docstring(before), ast.get_docstring(after))
            written = not ast.unparse(after).endswith("raise NotImplementedError")
            self.assertEqual(written, name in kept, f"{name}: only the learner's part is blank")


# ------------------------------------------------------------------------ figures

BLUE, ORANGE, GREY = "#0072b2", "#e69f00", "#bbbbbb"  # told apart by the colour-blind, and in grey


def frame(axes, title, x_label, y_label):
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.25)
    axes.legend(fontsize=8, framealpha=0.9)


def draw(path: Path, drawings, rows: int) -> Path:
    """Let each function of `drawings` draw its panel of a figure of so many rows."""
    import matplotlib

    matplotlib.use("Agg")  # needs no window
    import matplotlib.pyplot as plt

    columns = len(drawings) // rows
    size = (5 * columns + 1, 4 * rows + 0.2)
    figure, panels = plt.subplots(rows, columns, figsize=size, layout="constrained")
    for axes, drawing in zip(panels.flat, drawings, strict=True):
        drawing(axes)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def draw_accuracy(axes):
    x = np.arange(1, 121)
    for method, colour in (("grpo", BLUE), ("reinforce", ORANGE)):
        runs = torch.stack([r.sampled_accuracy for r in trained(method)[1]]).numpy()  # [steps, R]
        axes.plot(
            x, runs.mean(1), color=colour, label=f"{method.upper()}, sampled (band: 80% of runs)"
        )
        axes.fill_between(x, *np.quantile(runs, (0.1, 0.9), axis=1), color=colour, alpha=0.25, lw=0)
    greedy = [float(record.accuracy.mean()) for record in trained("grpo")[1]]
    hit = 1 - (1 - (1 - (12 / 13) ** 8) / 36) ** x
    axes.plot(x, greedy, "--", color="black", lw=1, label="greedy, both methods alike")
    axes.plot(x, hit + (1 - hit) / 13, ":", color="grey", lw=2.5, label="greedy, closed form")
    axes.set_ylim(0, 1)
    frame(axes, "Sampled accuracy tells the methods apart, greedy cannot", "step", "accuracy")


def draw_skips(axes):
    x, stats = np.arange(1, 121), [record.stats for record in trained("grpo")[1]]
    shares = [
        [float((s.skipped & (s.hit_rate == k)).float().mean()) for s in stats] for k in (0, 1)
    ]
    axes.stackplot(x, *shares, colors=(GREY, BLUE), alpha=0.7, labels=("all wrong", "all right"))
    axes.plot(
        x, predicted_skips().mean(1), color="black", lw=1.5, label="prediction $p^G + (1-p)^G$"
    )
    axes.set_ylim(0, 1)
    frame(
        axes, "A group that agrees with itself teaches nothing", "step", "share of groups skipped"
    )


def draw_shift(axes):
    for method, colour in (("grpo", BLUE), ("reinforce", ORANGE)):
        for settings, style, pay in (({}, "-", "0 or 1"), ({"reward_shift": 1.0}, "--", "1 or 2")):
            curve = [float(record.accuracy.mean()) for record in trained(method, **settings)[1]]
            width = 5 if (method, style) == ("reinforce", "-") else 2
            label = f"{method.upper()}, paid {pay}"
            axes.plot(
                range(1, 121),
                curve,
                style,
                color=colour,
                lw=width,
                label=label,
                zorder=3 - width / 5,
            )
    frame(axes, "Pay 1 and 2: GRPO does not notice", "step", "greedy accuracy")


def row(flags: str, label: str) -> float:
    return measured()[flags][label][0]


def draw_clip(axes):
    base = "--epochs 8 --lr 0.5"
    bars = {
        "both bounds 0.2": base,
        "upper 0.28": f"{base} --clip-eps-high 0.28",
        "upper open": f"{base} --clip-eps-high 1e9",
        "both open": f"{base} --clip-eps 0.999 --clip-eps-high 1e9",
    }
    y = np.arange(len(bars))
    for offset, label, colour in ((-0.2, "GRPO sampled", BLUE), (0.2, "GRPO clip fraction", GREY)):
        values = [row(flags, label) for flags in bars.values()]
        axes.barh(y + offset, values, 0.4, color=colour, label=label)
    axes.set_yticks(y, list(bars))
    axes.invert_yaxis()
    frame(axes, "With 8 epochs the clip slows learning down", "after 120 steps, lr 0.5", "")


def draw_kl(axes):
    flags = {"0": "--kl-beta 0", "0.02": "", "0.5": "--kl-beta 0.5", "1": "--kl-beta 1"}
    for label, style, colour in (("GRPO sampled", "o-", BLUE), ("GRPO KL", "s--", ORANGE)):
        axes.plot(
            list(flags), [row(f, label) for f in flags.values()], style, color=colour, label=label
        )
    axes.set_ylim(0)
    frame(axes, "KL weight: nothing at 0.02, a leash at 1", "beta", "accuracy; KL in nats")


def draw_group(axes):
    curves = {
        "equal updates (120)": ("--group 2", "", "--group 64"),
        "equal samples per run (960)": ("--group 2 --steps 480", "", "--group 64 --steps 15"),
    }
    for (label, flags), style, colour in zip(
        curves.items(), ("o-", "s--"), (BLUE, ORANGE), strict=True
    ):
        axes.plot(
            (2, 8, 64), [row(f, "GRPO sampled") for f in flags], style, color=colour, label=label
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks((2, 8, 64), ("2", "8", "64"))
    axes.set_ylim(0, 1)
    frame(
        axes,
        "Larger groups: better updates, fewer of them",
        "group size G",
        "GRPO, sampled accuracy",
    )


def draw_push(axes):
    p, marks = np.linspace(0.001, 0.999, 200), (0.05, 0.2, 0.5, 0.8, 0.95)
    axes.plot(p, [expected_push(x) for x in p], color=BLUE, label="GRPO, G = 8, enumerated")
    axes.plot(p, np.sqrt(p * (1 - p)), ":", color=BLUE, label="its limit $\\sqrt{p(1-p)}$")
    axes.plot(p, p * (1 - p), color=ORANGE, label="REINFORCE, $p(1-p)$")
    for method, mark, colour in (("grpo", "o", BLUE), ("reinforce", "s", ORANGE)):
        points = [float(measured_push(method, x).mean()) for x in marks]
        axes.plot(
            marks, points, mark, color=colour, mec="black", label=f"{method.upper()}, measured"
        )
    title = "Dividing by the std amplifies rare hits"
    frame(axes, title, "success probability p of a question", "mean push on the right logit, lr 1")


def draw_dynamic_sampling(axes):
    records = trained("grpo", steps=320)[1]
    accuracy = torch.stack([record.sampled_accuracy for record in records])  # [steps, R]
    counts = torch.stack([~record.stats.skipped for record in records]).cumsum(0)
    updates = torch.arange(1, 121)
    at = torch.stack(
        [(counts < n).sum(0) for n in updates]
    )  # [120, R]: the step of the n-th signal
    counted, drawn = accuracy.gather(0, at).mean(1), (at + 1).double().mean(1)
    axes.plot(updates, accuracy[:120].mean(1), color=GREY, lw=5, label="plain, against steps")
    axes.plot(updates, counted, color=BLUE, label="Dynamic Sampling, against updates")
    axes.plot(drawn, counted, "--", color=ORANGE, label="Dynamic Sampling, against groups drawn")
    title = "Dynamic Sampling saves updates, not samples"
    frame(axes, title, "updates, or groups drawn", "sampled accuracy")


CURVES = (draw_accuracy, draw_skips)
FOLLOW_UPS = (draw_shift, draw_clip, draw_kl, draw_group, draw_push, draw_dynamic_sampling)


# ------------------------------------------------------------------------ the grader


class Report(unittest.TestResult):
    """Says in a line or two what failed, as soon as it does."""

    def __init__(self, path: Path, verbose: bool):
        super().__init__()
        self.path, self.verbose, self.passed, self.failed = path, verbose, 0, 0
        self.out = sys.stdout  # a test has its own redirected

    def tell(self, word, test, text=""):
        name = test._testMethodName.removeprefix("test_").replace("_", " ")
        group = type(test).__name__.removeprefix("Test")
        print(f"{word} {group}: {name}{text}", file=self.out, flush=True)

    def addSuccess(self, test):
        self.passed += 1
        if self.verbose:
            self.tell("ok  ", test)

    def addFailure(self, test, error):
        self.failed += 1
        self.tell("FAIL", test, f"\n     {explain(error[1], self.path)}")
        if self.verbose:
            print(*traceback.format_exception(*error), sep="", file=self.out)

    addError = addFailure


def blank(source: str) -> str:
    """The exercise: from_scratch.py with every body from build_bank to train taken out."""
    lines, functions = source.splitlines(), []
    for node in ast.parse(source).body:
        functions += [f for f in ast.walk(node) if isinstance(f, ast.FunctionDef)]
    names = [f.name for f in functions]
    for f in reversed(functions[names.index("build_bank") : names.index("train") + 1]):
        start = f.body[0].end_lineno if ast.get_docstring(f) else f.body[0].lineno - 1
        lines[start : f.end_lineno] = [" " * (f.col_offset + 4) + "raise NotImplementedError"]
    return "\n".join(lines) + "\n"


def write_blank(path: Path) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(blank(ORIGINAL.read_text(encoding="utf-8")))
    print(f"wrote {path}; fill it in from the top, and grade it: python test_grpo.py {path}")


def grade(path: Path, pattern: str, verbose: bool) -> Report:
    """Run the tests whose name contains `pattern` on the file that is loaded."""
    loader, report = unittest.TestLoader(), Report(path, verbose)
    loader.testNamePatterns = [f"*{pattern}*"]
    for case in Case.__subclasses__():
        loader.loadTestsFromTestCase(case).run(report)
    return report


def main(argv=None) -> int:
    global grpo
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        type=Path,
        default=ORIGINAL,
        help="what to test (default: from_scratch.py)",
    )
    add("--blank", type=Path, metavar="FILE", help="write the exercise; never over another file")
    add("--no-plots", action="store_true", help="test only")
    add("--out", type=Path, default=Path(), metavar="DIR", help="where the figures go (default: .)")
    add(
        "-k",
        default="",
        metavar="PATTERN",
        help="only tests whose name contains PATTERN; no figures",
    )
    add("-v", action="store_true", help="name every test, show tracebacks")
    args = parser.parse_args(argv)
    try:
        if args.blank:
            write_blank(args.blank)
            return 0
        plots = not (args.no_plots or args.k)
        if plots:
            args.out.mkdir(parents=True, exist_ok=True)
        own = args.file.resolve() == ORIGINAL
        path = ORIGINAL if own else args.file
        grpo = load(path)
        if own and not args.k and README.exists():
            measuring()  # beside the tests
        report = grade(path, args.k, args.v)
        if plots and not report.failed:
            print("wrote", draw(args.out / "grpo_vs_reinforce.png", CURVES, 1))
            if own and README.exists():
                print("wrote", draw(args.out / "follow_ups.png", FOLLOW_UPS, 2))
    except BrokenPipeError:  # the reader has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ImportError, OSError) as error:
        print(f"test_grpo.py: {error}", file=sys.stderr)
        return 2
    skipped = f", {len(report.skipped)} skipped" if report.skipped else ""
    print(f"{report.passed} passed, {report.failed} failed{skipped}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
