# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "numpy", "matplotlib"]
# ///
"""Tests, figures, and the grader of the drill.

    python test_grpo.py                  test from_scratch.py, then draw both figures
    python test_grpo.py --blank mine.py  write the exercise: from_scratch.py without its bodies
    python test_grpo.py mine.py          grade it (and draw its curves)

`pytest test_grpo.py` runs the same tests. A test looks only at the names that from_scratch.py
gives the world, never at how they do it, so your own way of writing them is as good.
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
import tempfile
import traceback
import unittest
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch.optim.sgd import sgd

HERE = Path(__file__).resolve().parent
ORIGINAL = HERE / "from_scratch.py"
SECONDS = 20  # per test: an endless loop in a graded file ends here
torch.set_num_threads(1)  # tensors this small are faster on one


# ---------------------------------------------------------------- the file under test


@contextlib.contextmanager
def time_limit(seconds: int):
    """Raise TimeoutError in the block after `seconds` (where the platform has SIGALRM)."""

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
    """Import the file at `path`, silently. Whatever it raises, SystemExit too, is an ImportError."""
    name = path.name  # "mine.py" is no module's name, so nothing is shadowed
    spec = importlib.util.spec_from_loader(name, loader=None, origin=str(path))
    module = importlib.util.module_from_spec(spec)
    module.__file__ = str(path)
    sys.modules[name] = module
    try:
        code = compile(path.read_bytes(), str(path), "exec")
        with open(os.devnull, "w") as null, contextlib.redirect_stdout(null), time_limit(SECONDS):
            exec(code, module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise ImportError(f"{path}: {where(error, path)}{describe(error)}") from error
    return module


def where(error: BaseException, path: str | Path) -> str:
    """'line N, in NAME: ', the last place in the file at `path` that the error came through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    if isinstance(error, SyntaxError):
        return f"line {error.lineno}: "
    return f"line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""


def describe(error: BaseException) -> str:
    """An error in one line."""
    if isinstance(error, NotImplementedError):
        return "not written yet"
    text = str(getattr(error, "msg", error) or "").strip().split("\n")[0]
    if isinstance(error, AssertionError):
        return text
    return f"{type(error).__name__}: {text}"


grpo: Any = load(ORIGINAL)  # main() puts a learner's file here


# ---------------------------------------------------------------- how tests speak


class Case(unittest.TestCase):
    """A test with a time limit, whose failures name the likely mistake in one line."""

    longMessage = False
    seconds = SECONDS

    def setUp(self):
        self.enterContext(contextlib.redirect_stdout(self.enterContext(open(os.devnull, "w"))))
        self.enterContext(time_limit(self.seconds))

    def close(self, got, want, hint, mistakes=None, tol=1e-6):
        """Fail where `got` is not `want`; name the mistake whose value it is, else give `hint`."""
        got, want = tensor(got), tensor(want)
        if near(got, want, tol):
            return
        for mistake, value in (mistakes or {}).items():
            if near(got, tensor(value), tol):
                hint = mistake
                break
        self.fail(f"{hint} (got {short(got)}, expected {short(want)})")

    def same(self, got, want, hint):
        """Fail where two tensors differ in a single bit."""
        self.assertTrue(torch.equal(torch.as_tensor(got), torch.as_tensor(want)), hint)

    def refuses(self, error, function, *args, hint):
        """Fail where function(*args) does not raise `error`; return its message."""
        with self.assertRaises(error, msg=hint) as caught:
            function(*args)
        return str(caught.exception)


def tensor(values) -> torch.Tensor:
    return torch.as_tensor(values, dtype=torch.float64).detach()


def near(a: torch.Tensor, b: torch.Tensor, tol: float) -> bool:
    return a.shape == b.shape and bool(((a - b).abs() <= tol * (1 + b.abs())).all())


def short(values: torch.Tensor) -> str:
    text = np.array2string(values.numpy(), precision=7, separator=", ", threshold=20)
    return " ".join(text.split())


def softmax(logits) -> np.ndarray:
    logits = np.asarray(logits, float)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def random_table(rows: int, seed: int = 0):
    """A policy with random logits, so that no two answers are alike."""
    policy = grpo.AnswerPolicy(rows)
    with torch.no_grad():
        policy.logits.copy_(torch.randn(policy.logits.shape, generator=rng(seed)))
    return policy


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def numbers(policy) -> np.ndarray:
    return policy.logits.detach().double().numpy().copy()


@functools.cache
def trained(method: str, banks: int = 64, **settings) -> tuple[Any, list]:
    """(policy, records) of one training; equal arguments are trained once."""
    policy = grpo.AnswerPolicy(36 * banks)
    return policy, list(grpo.train(policy, method, grpo.Config(**settings)))


def sampled(method: str, **settings) -> torch.Tensor:
    """Final sampled accuracy of each run, [64]."""
    return trained(method, **settings)[1][-1].sampled_accuracy


def standard_error(values: torch.Tensor) -> float:
    return float(values.double().std() / len(values) ** 0.5)


def by_hand(table, ref, rows, answers, gold, config, refresh=False, kl_sign=1.0, batch_mean=False):
    """grpo_step with plain numbers, one answer at a time -> (new table, clip fraction per group)."""
    table, clipped = table.copy(), np.zeros(len(rows))
    low, high = 1 - config.clip_eps, 1 + (config.clip_eps_high or config.clip_eps)
    for b, row in enumerate(rows):
        r = (answers[b] == gold[b]) + config.reward_shift
        if r.std() < 1e-6:
            continue
        advantages = (r - r.mean()) / (r.std() + 1e-8 if config.std_norm else 1.0)
        p_old, p_ref = softmax(table[row]), softmax(ref[row])
        for _ in range(config.epochs):
            p = softmax(table[row])
            p_old = p if refresh else p_old
            log_ratio = np.log(p / p_ref)
            # d KL / d logit_j = p_j (log(p_j / ref_j) - KL)
            gradient = kl_sign * config.kl_beta * p * (log_ratio - p @ log_ratio)
            for answer, a in zip(answers[b], advantages, strict=True):
                ratio = p[answer] / p_old[answer]
                if (a > 0 and ratio > high) or (a < 0 and ratio < low):
                    clipped[b] += 1 / len(r) / config.epochs
                else:  # d log p(answer) / d logit_j = [j = answer] - p_j
                    gradient -= ratio * a * (np.eye(13)[answer] - p) / len(r)
            table[row] -= config.lr * gradient / (len(rows) if batch_mean else 1)
    return table, clipped


def expected_push(p: float, group: int = 8) -> float:
    """GRPO's mean move of the right logit at lr 1: k hits of G give k/G (1 - k/G) / std, and
    std = sqrt(k/G (1 - k/G))."""
    hits = ((k / group, math.comb(group, k) * p**k * (1 - p) ** (group - k)) for k in range(group + 1))
    return sum(chance * math.sqrt(h * (1 - h)) for h, chance in hits)


def measured_push(method: str, p: float, rows: int = 20000, **settings) -> torch.Tensor:
    """How far one step at lr 1 moved the right logit of each of many rows that know it with p."""
    policy, q_idx = grpo.AnswerPolicy(rows), torch.arange(rows)
    policy.logits.data[:, 0] = math.log(12 * p / (1 - p))
    start, gold = policy.logits.detach().clone(), torch.zeros_like(q_idx)
    config = grpo.Config(lr=1.0, kl_beta=0.0, **settings)
    if method == "grpo":
        grpo.grpo_step(policy, start, q_idx, gold, config, rng())
    else:
        grpo.reinforce_step(policy, q_idx, gold, config, rng())
    return (policy.logits.detach() - start)[:, 0]


# ---------------------------------------------------------------- the tests, in the file's order


class TestConfig(Case):
    DEFAULTS = {
        "steps": 120, "runs": 64, "group": 8, "lr": 4.0, "epochs": 1, "clip_eps": 0.2,
        "clip_eps_high": None, "kl_beta": 0.02, "std_norm": True, "reward_shift": 0.0, "seed": 42,
    }  # fmt: skip

    def test_defaults(self):
        self.assertEqual(vars(grpo.Config()), self.DEFAULTS, "a default differs from the design's")

    def test_is_frozen(self):
        self.refuses(AttributeError, setattr, grpo.Config(), "lr", 1.0, hint="use frozen=True")

    def test_refuses_what_is_out_of_range_or_of_the_wrong_type(self):
        nan, inf = math.nan, math.inf
        bad = {
            "steps": (0, -1, 1.0, True, "5", None), "runs": (0, 2.5, nan), "group": (1, 0, 8.0),
            "lr": (0.0, -1, nan, inf, "1", True, None), "epochs": (0, 1.5, False),
            "clip_eps": (-0.1, 1.0, 2, nan, None), "clip_eps_high": (-0.1, inf, nan, "x"),
            "kl_beta": (-1e-9, inf, nan, None), "std_norm": (1, 0, None, "no"),
            "reward_shift": (inf, -inf, nan, None, True), "seed": (-1, 0.5, 2**64, None),
        }  # fmt: skip
        for name, values in bad.items():
            for value in values:
                hint = f"Config({name}={value!r}) must raise ValueError"
                message = self.refuses(
                    ValueError, lambda n=name, v=value: grpo.Config(**{n: v}), hint=hint
                )
                self.assertIn(name, message, f"{hint}, and name the field")

    def test_accepts_the_ends_of_each_range(self):
        ends = {
            "steps": (1, np.int64(3)), "runs": (1,), "group": (2,), "epochs": (1,),
            "lr": (1e-30, 1e39, 1, np.float32(2)), "clip_eps": (0, 0.999),
            "clip_eps_high": (None, 0, 1e9), "kl_beta": (0, 1e6), "std_norm": (True, False),
            "reward_shift": (-1e9, 0, 0.5), "seed": (0, 2**64 - 1),
        }  # fmt: skip
        for name, values in ends.items():
            for value in values:
                self.assertEqual(getattr(grpo.Config(**{name: value}), name), value)


class TestBank(Case):
    def test_question_6a_plus_b_asks_for_a_plus_b(self):
        self.assertEqual((grpo.N_A, grpo.N_B, grpo.N_Q, grpo.N_ANS), (6, 6, 36, 13))
        questions, gold = grpo.build_bank()
        a, b = np.arange(6)[:, None], np.arange(6)[None]
        self.close(questions, (6 * a + b).ravel(), "questions must be 0..35, in order")
        mistakes = {
            "gold is the sum a + b, not the product": (a * b).ravel(),
            "a and b are 0..5, not 1..6": (a + b + 2).ravel(),
        }
        self.close(gold, (a + b).ravel(), "gold must be a + b for q = 6a + b", mistakes)
        self.assertEqual((questions.dtype, gold.dtype), (torch.int64,) * 2, "use int64 tensors")


class TestPolicy(Case):
    def test_starts_uniform_as_a_table_of_zeros_that_can_learn(self):
        policy = grpo.AnswerPolicy()
        self.assertEqual([name for name, _ in policy.named_parameters()], ["logits"],
                         "logits must be an nn.Parameter, and the only one")  # fmt: skip
        self.close(
            policy.logits, np.zeros((36, 13)), "logits must start at zero, a row per question"
        )
        self.assertEqual(grpo.AnswerPolicy(5, 3).logits.shape, (5, 3), "n_q rows of n_ans logits")

    def test_dist_is_the_softmax_of_the_rows_asked_for(self):
        policy = random_table(36)
        expected = softmax(numbers(policy))
        one, many = policy.dist(7), policy.dist(torch.tensor([7, 0, 7]))
        self.assertIsInstance(one, torch.distributions.Categorical)
        self.close(one.probs, expected[7], "dist(int) must be the softmax of that row")
        self.close(many.probs, expected[[7, 0, 7]], "dist(LongTensor [B]) must be B rows")

    def test_a_row_learns_alone(self):
        policy = grpo.AnswerPolicy()
        policy.dist(torch.tensor([3])).log_prob(torch.tensor([5])).sum().backward()
        gradient = np.zeros((36, 13))
        gradient[3] = np.eye(13)[5] - 1 / 13  # [j = answer] - p_j
        self.close(policy.logits.grad, gradient, "each question must have a row of its own")


class TestAccuracy(Case):
    GOLD = torch.arange(36) // 6 + torch.arange(36) % 6

    def test_ties_are_shared_out(self):
        # 35 rows of 13-way ties give 1/13 each. Row 0 (right: 0): alone first, in a tie of two,
        # in a tie of two without the right answer, and alone second.
        for row, score in (
            ({0: 1.0}, 1),
            ({0: 2.0, 4: 2.0}, 0.5),
            ({3: 1.0, 4: 1.0}, 0),
            ({4: 1.0}, 0),
        ):
            policy = grpo.AnswerPolicy()
            for answer, logit in row.items():
                policy.logits.data[0, answer] = logit
            right = (35 / 13 + score) / 36
            rest = softmax(numbers(policy))[np.arange(36), self.GOLD].mean()
            self.close(grpo.accuracy(policy, self.GOLD), right, f"a k-way tie counts 1/k: {row}",
                       {"argmax counts a tie as right or wrong: share it out": score / 36 + 1 / 36 * (score < 1)})  # fmt: skip
            self.close(grpo.sampled_accuracy(policy, self.GOLD), rest, "mean p(right answer)")

    def test_untrained_policy_scores_one_in_thirteen(self):
        for score in (grpo.accuracy, grpo.sampled_accuracy):
            got = score(grpo.AnswerPolicy(), self.GOLD)
            tied = {"argmax returns answer 0 for an untouched row: share ties out": 1 / 36}
            self.close(got, 1 / 13, f"{score.__name__} of a uniform table is 1/13", tied)

    def test_each_run_has_its_own_score(self):
        policy, gold = random_table(72), self.GOLD.repeat(2, 1)
        p = softmax(numbers(policy)).reshape(2, 36, 13)
        greedy = (p.argmax(-1) == gold.numpy()).mean(-1)
        probability = np.take_along_axis(p, gold.numpy()[..., None], -1)[..., 0].mean(-1)
        self.close(grpo.accuracy(policy, gold), greedy, "gold [R, 36] -> accuracy [R]")
        self.close(grpo.sampled_accuracy(policy, gold), probability, "gold [R, 36] -> [R]")
        self.assertFalse(
            grpo.sampled_accuracy(policy, gold).requires_grad, "scores need no gradient"
        )

    def test_refuses_rows_and_gold_of_different_number(self):
        for score in (grpo.accuracy, grpo.sampled_accuracy):
            for gold in (self.GOLD[:35], self.GOLD.repeat(2, 1)):
                self.refuses(ValueError, score, grpo.AnswerPolicy(), gold,
                             hint=f"{score.__name__} must raise ValueError")  # fmt: skip


class TestGroupAdvantages(Case):
    def test_one_hit_in_eight(self):
        # mean 1/8, population std sqrt(7)/8: (7/8) / (sqrt(7)/8) = sqrt(7), -(1/8) / ... = -1/sqrt(7)
        r = np.eye(8)[0]
        want = [7**0.5] + [-(7**-0.5)] * 7
        mistakes = {
            "divide by the population std: torch's `std` needs `correction=0`": (r - r.mean())
            / r.std(ddof=1),
            "divide by the std, not by the variance": (r - r.mean()) / r.var(),
            "subtract the group's mean": r / r.std(),
            "divide by the std": r - r.mean(),
            "the sign is wrong: a hit is better than the mean": -(r - r.mean()) / r.std(),
        }
        self.close(grpo.group_advantages(r), want, "(r - mean) / std within the group", mistakes)

    def test_one_hit_in_two_and_half_the_hits(self):
        self.close(grpo.group_advantages([1, 0]), [1, -1], "mean 1/2, std 1/2")
        self.close(grpo.group_advantages([1, 0, 1, 0]), [1, -1, 1, -1], "mean 1/2, std 1/2")

    def test_libraries_divide_by_the_sample_std(self):
        # verl: ddof 1, eps 1e-6 -> 2.4748667, -0.3535524 = ours * sqrt((G - 1) / G)
        ours = grpo.group_advantages(np.eye(8)[0]) * (7 / 8) ** 0.5
        self.close(ours[:2], [2.4748667, -0.3535524], "ours * sqrt((G-1)/G) is verl's", tol=1e-5)

    def test_is_a_z_score_within_the_last_dimension(self):
        r = np.random.default_rng(0).normal(3, 5, (4, 5, 8))
        centred = r - r.mean(-1, keepdims=True)
        mistakes = {
            "statistics belong to each group, not to the whole batch": (r - r.mean()) / r.std(),
            "statistics run over the last dimension, not the first": (r - r.mean(0)) / r.std(0),
        }
        z = centred / r.std(-1, keepdims=True)
        self.close(grpo.group_advantages(r), z, "z-score over the last dimension", mistakes)
        self.close(grpo.group_advantages(r, std_norm=False), centred, "std_norm=False: r - mean",
                   {"std_norm=False must not divide by the std": z})  # fmt: skip

    def test_shift_and_scale_do_not_matter_and_groups_do_not_mix(self):
        r = np.random.default_rng(1).normal(size=(3, 8))
        want = grpo.group_advantages(r)
        self.close(grpo.group_advantages(7 * r - 100), want, "a z-score ignores shift and scale")
        self.close(grpo.group_advantages(-r), -want, "worse rewards must turn the sign")
        order = np.random.default_rng(2).permutation(8)
        self.close(grpo.group_advantages(r[:, order]), want[:, order], "the order must not matter")
        self.same(grpo.group_advantages(r[:1]), want[:1], "other groups must not matter")
        self.close(want.mean(-1), np.zeros(3), "a group's advantages sum to 0")

    def test_equal_rewards_are_exactly_zero(self):
        types = (float, np.float64, np.float32, torch.float64, torch.float32, torch.float16,
                 torch.bfloat16, torch.int64, int, bool)  # fmt: skip
        values = (0, 1, 0.1, 0.7, 1 / 3, 1e-9, -7.3, 1e12 + 0.1, 1e300)
        for value, size, kind in itertools.product(values, (1, 2, 3, 7, 8, 64), types):
            if abs(value) > 6e4 and kind not in (float, np.float64, torch.float64):
                continue
            if isinstance(kind, torch.dtype):
                rewards = torch.full((2, 3, size), value, dtype=torch.float64).to(kind)
            elif kind in (np.float32, np.float64):
                rewards = np.full((2, size), value, kind)
            else:
                rewards = [kind(value)] * size
            for std_norm in (True, False):
                got = grpo.group_advantages(rewards, std_norm)
                self.assertTrue(bool((got == 0).all()),
                                f"equal rewards carry no signal: exactly 0, not {got.flatten()[0]} "
                                f"for {size} x {kind.__name__ if hasattr(kind, '__name__') else kind}({value})")  # fmt: skip

    def test_a_std_below_1e_6_is_no_signal(self):
        for std_norm in (True, False):
            self.close(grpo.group_advantages([0, 1.8e-6], std_norm), [0, 0],
                       "std 9e-7 < 1e-6: exactly 0", tol=0)  # fmt: skip
        # std 1.1e-6: 1.1e-6 / (1.1e-6 + 1e-8)
        self.close(grpo.group_advantages([0, 2.2e-6]), [-1.1 / 1.11, 1.1 / 1.11],
                   "std 1.1e-6 is a signal; divide by std + 1e-8", tol=1e-5)  # fmt: skip

    def test_reads_every_type_at_its_own_precision(self):
        hint = "compute in float64 from the input's own values: float32 cannot hold 1e8 + 1"
        for rewards in (
            [1e8, 1e8 + 1],
            np.array([1e8, 1e8 + 1]),
            torch.tensor([1e8, 1e8 + 1]).double(),
        ):
            rewards = (
                torch.tensor([1e8, 1e8 + 1], dtype=torch.float64)
                if torch.is_tensor(rewards)
                else rewards
            )
            self.close(grpo.group_advantages(rewards), [-1, 1], hint)
        for kind in (torch.int64, torch.bool, torch.float16, torch.bfloat16):
            got = grpo.group_advantages(torch.tensor([1, 0, 0, 1]).to(kind))
            self.close(got, [1, -1, -1, 1], f"rewards of {kind} are rewards too")
            self.assertEqual(got.dtype, torch.float32, "advantages are float32")

    def test_is_a_constant(self):
        rewards = torch.tensor([1.0, 0.0], requires_grad=True)
        self.assertFalse(grpo.group_advantages(rewards).requires_grad, "detach the advantages")

    def test_refuses_rewards_that_mean_nothing(self):
        nan, inf = math.nan, math.inf
        for bad in ([], 1.0, torch.tensor(2.0), np.zeros((3, 0)), [nan, 1], [inf, 0], [0, -inf],
                    [inf, inf], [nan], [[1, 0], [nan, 0]], [1e308, -1e308]):  # fmt: skip
            for std_norm in (True, False):
                self.refuses(ValueError, grpo.group_advantages, bad, std_norm,
                             hint=f"group_advantages({bad}) must raise ValueError")  # fmt: skip


class TestSampleAnswers(Case):
    def test_returns_answers_and_their_log_probabilities(self):
        policy, q_idx = random_table(36), torch.tensor([4, 30, 4])
        answers, logp_old = grpo.sample_answers(policy, q_idx, 20, rng())
        self.assertEqual(
            (answers.shape, answers.dtype), ((3, 20), torch.int64), "answers: int64 [B, G]"
        )
        logp = np.log(softmax(numbers(policy)))[q_idx[:, None], answers]
        self.close(logp_old, logp, "logp_old[b, g] must be log pi(answers[b, g] | q_idx[b])")
        self.assertFalse(logp_old.requires_grad, "logp_old must be a constant: no gradient")

    def test_draws_with_replacement_from_the_policy(self):
        policy, n = random_table(2), 40000
        answers, _ = grpo.sample_answers(policy, torch.tensor([1, 0]), n, rng())
        for row, drawn in zip(softmax(numbers(policy))[[1, 0]], answers, strict=True):
            share = np.bincount(drawn, minlength=13) / n
            error = np.abs(share - row) / np.sqrt(row * (1 - row) / n)
            hint = "draw each answer on its own from softmax(logits), with replacement"
            if (share > 0.99).any():
                hint = "sample: do not take the likeliest answer, nor one answer for the group"
            self.assertLess(error.max(), 5, hint)
        small, _ = grpo.sample_answers(policy, torch.zeros(4000, dtype=torch.int64), 2, rng())
        same, p = float((small[:, 0] == small[:, 1]).double().mean()), softmax(numbers(policy))[0]
        self.assertLess(abs(same - p @ p), 0.05, "two draws agree with probability sum p^2: "
                        "draw with replacement, each on its own")  # fmt: skip

    def test_the_generator_is_the_only_luck(self):
        policy, q_idx = random_table(36), torch.arange(36)
        state = torch.get_rng_state()
        first, _ = grpo.sample_answers(policy, q_idx, 8, rng(1))
        torch.manual_seed(123)
        again, _ = grpo.sample_answers(policy, q_idx, 8, rng(1))
        other, _ = grpo.sample_answers(policy, q_idx, 8, rng(2))
        torch.set_rng_state(state)
        grpo.sample_answers(policy, q_idx, 8, rng(1))
        self.same(first, again, "draw from the generator, not from the global random state")
        self.assertFalse(torch.equal(first, other), "another seed must draw other answers")
        self.same(torch.get_rng_state(), state, "leave the global random state alone")
        grpo.sample_answers(policy, q_idx, 8)


class TestClippedSurrogate(Case):
    def surrogate(self, ratio, advantages, *eps, dtype=torch.float64):
        """(objective, gradient to logp_new) at the given ratios."""
        logp_new = torch.tensor(ratio, dtype=dtype).log().requires_grad_()
        value = grpo.clipped_surrogate(
            logp_new, torch.zeros_like(logp_new), torch.tensor(advantages, dtype=dtype), *eps
        )
        (gradient,) = torch.autograd.grad(value.sum(), logp_new)
        return value.detach(), gradient

    def test_four_quadrants(self):
        # Outside 0.8..1.2 the clip binds only where it holds the policy back from going further:
        # up for A > 0, down for A < 0. d ratio*A / d logp_new = ratio*A where it does not bind.
        ratio, a = np.array([0.5, 0.5, 1.5, 1.5]), np.array([1.0, -1, 1, -1])
        clip = np.clip(ratio, 0.8, 1.2)
        value, gradient = self.surrogate(list(ratio), list(a))
        mistakes = {
            "`min`, not `max`: the surrogate is a lower bound": np.maximum(ratio * a, clip * a),
            "take the `min` with the unclipped product": clip * a,
            "nothing is clipped": ratio * a,
            "the ratio is upside down: pi_theta / pi_old": np.minimum(
                a / ratio, np.clip(1 / ratio, 0.8, 1.2) * a
            ),
            "the objective is to be maximised: no minus sign here": -np.minimum(
                ratio * a, clip * a
            ),
            "for A < 0 too it is the `min` of the products": np.minimum(ratio, clip) * a,
            "the ratio is exp(logp_new - logp_old), not a ratio of log-probabilities": np.full(
                4, np.nan
            ),
        }
        self.close(value, [0.5, -0.8, 1.2, -1.5], "min(ratio*A, clip(ratio)*A)", mistakes)
        self.close(gradient, [0.5, 0, 0, -1.5], "gradient ratio*A, and 0 where the clip binds")

    def test_clip_higher_moves_the_upper_bound_alone(self):
        value, _ = self.surrogate([2.0, 0.5, 1.25], [1.0, -1.0, 1.0], 0.2, 0.28)
        mistakes = {
            "clip_eps_high is the upper bound: use it": [1.2, -0.8, 1.2],
            "the bounds are swapped": [1.2, -0.72, 1.2],
        }
        self.close(value, [1.28, -0.8, 1.25], "clip to 1 - eps .. 1 + eps_high", mistakes)
        wide, _ = self.surrogate([2.0, 0.5], [1.0, -1.0], 0.4)
        self.close(wide, [1.4, -0.6], "clip_eps_high=None means clip_eps")
        shut, _ = self.surrogate([2.0, 0.5], [1.0, -1.0], 0.4, 0.0)
        self.close(shut, [1.0, -0.6], "clip_eps_high=0 is a bound, not a None")

    def test_is_a_lower_bound_elementwise(self):
        r = np.exp(np.random.default_rng(0).normal(size=(6, 8)))
        a = np.random.default_rng(1).normal(size=(6, 8))
        value, _ = self.surrogate(r.tolist(), a.tolist(), 0.1, 0.3)
        want = np.minimum(r * a, np.clip(r, 0.9, 1.3) * a)
        self.close(value, want, "elementwise, in the shape of the inputs: no mean")
        self.assertTrue((value.numpy() <= r * a + 1e-12).all(), "never above ratio * A")

    def test_at_ratio_one_it_is_the_policy_gradient(self):
        value, gradient = self.surrogate([1.0, 1.0], [2.5, -0.4])
        self.close(value, [2.5, -0.4], "at ratio 1 the value is A")
        self.close(gradient, [2.5, -0.4], "at ratio 1 the gradient to logp_new is A: REINFORCE's")

    def test_gradient_against_finite_differences(self):
        logp = torch.tensor([-0.5, 0.05, 0.3, -0.1], dtype=torch.float64, requires_grad=True)
        a = torch.tensor([1.0, -2.0, -1.0, 0.5], dtype=torch.float64)
        check = torch.autograd.gradcheck
        self.assertTrue(check(lambda x: grpo.clipped_surrogate(x, torch.zeros(4), a), (logp,)))

    def test_old_policy_and_advantages_are_constants(self):
        new, old, a = (torch.tensor([0.1, 0.2], requires_grad=True) for _ in range(3))
        grpo.clipped_surrogate(new, old, a).sum().backward()
        self.assertTrue(
            old.grad is None or not old.grad.any(), "`logp_old` must be a constant: detach"
        )
        self.assertTrue(a.grad is None or not a.grad.any(), "the advantages are constants: detach")
        self.close(new.grad, [0.1, 0.2], "the gradient to logp_new is ratio * A")
        same = torch.tensor([0.1, 0.2], requires_grad=True)
        grpo.clipped_surrogate(same, same, torch.ones(2)).sum().backward()
        self.close(same.grad, [1, 1], "with `logp_old` attached the gradient cancels to 0: detach")

    def test_refuses_shapes_that_would_broadcast(self):
        for shapes in ([(4,), (4,), (4, 1)], [(4,), (4, 1), (4,)], [(2, 4), (4,), (2, 4)],
                       [(4,), (4,), ()], [(1,), (4,), (4,)]):  # fmt: skip
            self.refuses(ValueError, grpo.clipped_surrogate, *map(torch.zeros, shapes),
                         hint=f"shapes {shapes} broadcast to a wrong sum: raise ValueError")  # fmt: skip

    def test_keeps_the_dtype_of_logp_new(self):
        kinds = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
        for new, other in itertools.product(kinds, kinds[:2]):
            z = torch.zeros(2, dtype=other)
            got = grpo.clipped_surrogate(torch.zeros(2, dtype=new), z, z).dtype
            self.assertEqual(got, new, "the result has logp_new's dtype")

    def test_no_log_ratio_overflows(self):
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            big = torch.finfo(dtype).max
            logs = [x for x in (5.0, 20, 89, 800, 1e4, 3e38) if x <= big]
            for log_ratio, a in itertools.product(
                [s * x for x in logs for s in (1, -1)], (2.6, 0, -2.6)
            ):
                new = torch.tensor([log_ratio], dtype=dtype, requires_grad=True)
                old, advantage = torch.zeros(1, dtype=dtype), torch.tensor([a], dtype=dtype)
                value = grpo.clipped_surrogate(new, old, advantage)
                (gradient,) = torch.autograd.grad(value.sum(), new)
                hint = f"log-ratio {log_ratio}, A {a}, {dtype}: keep the log-ratio within +-20 before exp"
                self.assertTrue(bool(value.isfinite().all() and gradient.isfinite().all()), hint)
        value, gradient = self.surrogate([math.exp(25), math.exp(15)], [-1.0, -1.0])
        self.close(value / math.exp(15), [-math.exp(5), -1], "the log-ratio is kept within +-20")
        value, gradient = self.surrogate([math.exp(5)], [-1.0], dtype=torch.float16)
        self.close(value, [-math.exp(5)], "half precision holds a ratio of 148", tol=1e-2)


class TestKl(Case):
    P, UNIFORM = (
        torch.tensor([2.0, 0.0, -1.0], dtype=torch.float64),
        torch.zeros(3, dtype=torch.float64),
    )

    def test_value_and_gradient_by_hand(self):
        # p = softmax(2, 0, -1) = .8438, .1142, .0420; KL = sum p log(p / (1/3)); d/d logit = p (log 3p - KL)
        logits = self.P.clone().requires_grad_()
        kl = grpo.kl_to_reference(logits, self.UNIFORM)
        mistakes = {
            "KL(pi_theta || pi_ref): the reference comes second": 0.737900,
            "KL is positive: log pi_theta - log pi_ref": -0.574346,
            "normalise: logits are not log-probabilities": float(
                (self.P.softmax(-1) * self.P).sum()
            ),
        }
        self.close(kl, 0.574346, "sum p (log p - log ref)", mistakes, tol=1e-5)
        hint = "the KL must carry a gradient to the logits"
        self.assertTrue(kl.requires_grad, hint)
        (gradient,) = torch.autograd.grad(kl, logits)
        self.close(gradient, [0.299058, -0.187917, -0.111141], hint, tol=1e-5)
        self.close(
            grpo.kl_to_reference(self.UNIFORM, self.P), 0.737900, "the other way round", tol=1e-5
        )

    def test_equals_the_sum_and_the_library(self):
        logits, ref = (torch.randn(2, 5, 13, generator=rng(s), dtype=torch.float64) for s in (0, 1))
        p, q = softmax(logits), softmax(ref)
        got = grpo.kl_to_reference(logits, ref)
        self.close(got, (p * np.log(p / q)).sum(-1), "sum over the last dimension")
        pair = (torch.distributions.Categorical(logits=x) for x in (logits, ref))
        self.close(got, torch.distributions.kl_divergence(*pair), "torch's kl_divergence agrees")
        self.close(
            grpo.kl_to_reference(logits + 9, ref - 5), got, "softmax ignores a shift of the logits"
        )
        self.close(
            grpo.kl_to_reference(logits, logits), np.zeros((2, 5)), "KL(p || p) = 0", tol=1e-12
        )

    def test_gradient_against_finite_differences(self):
        pair = [torch.randn(2, 4, generator=rng(s), dtype=torch.float64) for s in (0, 1)]
        check = torch.autograd.gradcheck
        self.assertTrue(
            check(lambda x: grpo.kl_to_reference(x, pair[1]), (pair[0].requires_grad_(),))
        )

    def test_stays_finite_for_a_certain_policy(self):
        kl = grpo.kl_to_reference(torch.tensor([1e4, 0.0, 0.0]), torch.zeros(3))
        self.close(kl, math.log(3), "one sure answer of three: log 3, not NaN")


class TestGrpoLoss(Case):
    def setUp(self):
        super().setUp()
        self.answers = torch.tensor([[0, 1, 1, 2], [3, 3, 3, 3], [2, 0, 0, 1]])
        self.advantages = (
            torch.tensor([[3, -1, -1, -1], [0, 0, 0, 0], [1, 1, -1, -1.0]]).double() / 3**0.5
        )
        self.logits, self.ref, old = (
            torch.randn(3, 13, generator=rng(s)).double() for s in (0, 1, 2)
        )
        self.logits.requires_grad_()
        self.logp_old = old.log_softmax(-1).gather(-1, self.answers)

    def loss(self, rows=slice(None), **settings):
        return grpo.grpo_loss(
            self.logits[rows], self.ref[rows], self.answers[rows], self.logp_old[rows],
            self.advantages[rows], grpo.Config(**settings),
        )  # fmt: skip

    def parts(self, eps=0.2, high=0.2):
        """(mean surrogate [3], KL [3]) by numpy."""
        p, q = softmax(self.logits.detach()), softmax(self.ref)
        ratio = np.take_along_axis(p, self.answers.numpy(), -1) / np.exp(self.logp_old.numpy())
        a = self.advantages.numpy()
        surrogate = np.minimum(ratio * a, np.clip(ratio, 1 - eps, 1 + high) * a)
        return surrogate.mean(-1), (p * np.log(p / q)).sum(-1)

    def test_sum_over_questions_of_beta_kl_minus_mean_surrogate(self):
        surrogate, kl = self.parts()
        signal = np.array([1, 0, 1])
        mistakes = {
            "the surrogate is to be maximised: loss = -surrogate": (
                signal * 0.5 * kl + surrogate
            ).sum(),
            "the KL is a penalty: + beta * KL": (-signal * 0.5 * kl - surrogate).sum(),
            "a group without a signal adds nothing, not even KL": (0.5 * kl - surrogate).sum(),
            "mean over the group's answers, not sum": (signal * 0.5 * kl - 4 * surrogate).sum(),
            "sum over questions, not mean": (signal * 0.5 * kl - surrogate).sum() / 3,
            "sum over questions, not mean over those that count": (
                signal * 0.5 * kl - surrogate
            ).sum()
            / 2,
            "beta is ignored": (signal * kl - surrogate).sum(),
            "the KL is missing": -surrogate.sum(),
            "beta comes from config.kl_beta": (signal * 0.02 * kl - surrogate).sum(),
        }
        want = (signal * 0.5 * kl - surrogate).sum()
        self.close(
            self.loss(kl_beta=0.5), want, "sum_b beta * KL_b - mean_i surrogate_bi", mistakes
        )
        self.assertEqual(self.loss().dim(), 0, "the loss is a scalar")

    def test_uses_both_clips(self):
        surrogate, _ = self.parts(0.1, 0.5)
        got = self.loss(kl_beta=0.0, clip_eps=0.1, clip_eps_high=0.5)
        mistakes = {
            "config.clip_eps_high is ignored": -self.parts(0.1, 0.1)[0].sum(),
            "config.clip_eps is ignored": -self.parts(0.2, 0.5)[0].sum(),
        }
        self.close(got, -surrogate.sum(), "config's clips must be used", mistakes)

    def test_at_ratio_one_the_loss_is_zero_and_its_gradient_is_not(self):
        self.logp_old = self.logits.detach().log_softmax(-1).gather(-1, self.answers)
        loss = self.loss(kl_beta=0.0)
        self.close(loss, 0, "at ratio 1 the loss is minus the mean advantage: 0")
        (gradient,) = torch.autograd.grad(loss, self.logits)
        onehot = np.eye(13)[self.answers] - softmax(self.logits.detach())[:, None]
        want = -(self.advantages.numpy()[..., None] * onehot).mean(
            1
        )  # -mean_i A_i ([j = o_i] - p_j)
        self.close(gradient, want, "the gradient is -mean_i A_i ([j = o_i] - p_j)",
                   {"the sign of the gradient is wrong": -want})  # fmt: skip

    def test_the_kl_has_its_gradient(self):
        gradients = [torch.autograd.grad(self.loss(kl_beta=b), self.logits)[0] for b in (0.0, 0.5)]
        p, q = softmax(self.logits.detach()), softmax(self.ref)
        kl = (p * np.log(p / q)).sum(-1, keepdims=True)
        want = 0.5 * p * (np.log(p / q) - kl) * np.array([[1], [0], [1]])
        self.close(gradients[1] - gradients[0], want, "beta * p (log(p / ref) - KL), none where the "
                   "group has no signal", {"the KL is detached": want * 0})  # fmt: skip

    def test_without_any_signal_loss_and_gradient_are_zero(self):
        loss = self.loss(rows=slice(1, 2), kl_beta=0.5)
        self.close(loss, 0, "no signal: the loss is 0, without KL")
        (gradient,) = torch.autograd.grad(loss, self.logits)
        self.close(gradient, np.zeros((3, 13)), "no signal: the gradient is 0", tol=0)

    def test_only_the_policy_gets_a_gradient(self):
        for constant in (self.ref, self.logp_old, self.advantages):
            constant.requires_grad_()
        self.loss(kl_beta=0.5).backward()
        names = ("the reference", "`logp_old`", "the advantages")
        for name, constant in zip(names, (self.ref, self.logp_old, self.advantages), strict=True):
            self.assertTrue(
                constant.grad is None or not constant.grad.any(), f"{name} must be constant"
            )

    def test_gradient_against_finite_differences(self):
        self.assertTrue(torch.autograd.gradcheck(lambda x: grpo.grpo_loss(
            x, self.ref, self.answers, self.logp_old, self.advantages, grpo.Config(kl_beta=0.5)
        ), (self.logits,)))  # fmt: skip


class TestSgdStep(Case):
    def test_equals_torch_sgd(self):
        for lr in (4.0, 0.08):
            policy = random_table(5)
            theta = policy.logits.detach().clone()
            weights = torch.randn(5, 13, generator=rng(1))
            parameter = policy.logits
            grpo.sgd_step(policy, (policy.logits * weights).sum(), lr)  # the gradient is `weights`
            mistakes = {
                "descend: theta minus lr * gradient": theta + lr * weights,
                "lr is ignored": theta - weights,
                "the table must change in place": theta,
            }
            self.close(policy.logits, theta - lr * weights, "theta - lr * gradient", mistakes)
            self.assertIs(policy.logits, parameter, "the table must stay the same Parameter")
            self.assertTrue(policy.logits.requires_grad, "the table must still learn after a step")
        torch_theta = random_table(5).logits.detach().clone()
        sgd([torch_theta], [weights], [None], lr=0.08, weight_decay=0.0, momentum=0.0,
                            dampening=0.0, nesterov=False, maximize=False, foreach=False)  # fmt: skip
        self.close(policy.logits, torch_theta, "torch.optim.SGD's own update", tol=1e-7)
        if grpo.__file__ == str(ORIGINAL):
            self.same(policy.logits, torch_theta, "to the last bit")


class StepCase(Case):
    ROWS = torch.tensor([5, 0, 3, 1])

    def step(self, method="grpo", **settings):
        """One step on a random table of 6 rows -> what went in, as numpy, and what came out."""
        policy, ref = random_table(6, seed=7), random_table(6, seed=8).logits.detach()
        before, config, frozen = numbers(policy), grpo.Config(**settings), ref.clone()
        answers, _ = grpo.sample_answers(policy, self.ROWS, config.group, rng(3))
        gold = answers[:, 0].clone()  # so that each group has a hit
        gold[2] = (set(range(13)) - set(answers[2].tolist())).pop()  # but the third has none
        if method == "grpo":
            stats = grpo.grpo_step(policy, ref, self.ROWS, gold, config, rng(3))
        else:
            stats = grpo.reinforce_step(policy, self.ROWS, gold, config, rng(3))
        self.same(ref, frozen, "the reference must not move")
        return before, ref.double().numpy(), answers.numpy(), gold.numpy(), config, policy, stats


class TestGrpoStep(StepCase):
    def test_three_epochs_with_clip_and_kl_equal_the_numbers_by_hand(self):
        settings = {"epochs": 3, "lr": 0.7, "kl_beta": 0.3, "clip_eps": 0.1, "clip_eps_high": 0.15}
        before, ref, answers, gold, config, policy, stats = self.step(**settings)

        def hand(**other):
            named = {k: other.pop(k) for k in ("refresh", "kl_sign", "batch_mean") if k in other}
            changed = replace(config, **other)
            return by_hand(before, ref, self.ROWS.numpy(), answers, gold, changed, **named)

        table, clipped = hand()
        self.assertTrue(
            (clipped[[0, 1, 3]] > 0.05).all() and clipped[2] == 0
        )  # the clip is at work
        mistakes = {
            "`logp_old` is of the sampling policy: do not refresh it each epoch": hand(
                refresh=True
            )[0],
            "config.epochs is ignored": hand(epochs=1)[0],
            "config.lr is ignored": hand(lr=4.0)[0],
            "config.kl_beta is ignored": hand(kl_beta=0.02)[0],
            "the KL is missing": hand(kl_beta=0.0)[0],
            "the KL is a penalty: its sign is wrong": hand(kl_sign=-1.0)[0],
            "config.std_norm is ignored": hand(std_norm=False)[0],
            "config.clip_eps is ignored": hand(clip_eps=0.2)[0],
            "config.clip_eps_high is ignored": hand(clip_eps_high=None)[0],
            "sum over questions, not mean": hand(batch_mean=True)[0],
            "the table did not change": before,
        }
        self.close(policy.logits, table, "three epochs on one group, by hand", mistakes, tol=1e-5)
        self.close(stats.clip_fraction, clipped, "clip_fraction: A > 0 and ratio > 1 + eps_high, or "
                   "A < 0 and ratio < 1 - eps; share of the group, mean over the epochs")  # fmt: skip

    def test_other_settings_equal_the_numbers_by_hand(self):
        for settings in ({"std_norm": False}, {"group": 3, "kl_beta": 1.0}, {"reward_shift": -2.5},
                         {"epochs": 2, "lr": 1.0}, {"lr": 0.05, "kl_beta": 0.0}):  # fmt: skip
            before, ref, answers, gold, config, policy, _ = self.step(**settings)
            table, _ = by_hand(before, ref, self.ROWS.numpy(), answers, gold, config)
            ignored, _ = by_hand(before, ref, self.ROWS.numpy(), answers, gold, grpo.Config())
            self.close(policy.logits, table, f"one step with {settings}, by hand",
                       {f"{settings} is ignored": ignored}, tol=1e-5)  # fmt: skip

    def test_reports_hits_and_skipped_groups(self):
        for shift in (0.0, 5.0):
            _, _, answers, gold, _, _, stats = self.step(reward_shift=shift)
            hits = (answers == gold[:, None]).mean(-1)
            self.close(stats.hit_rate, hits, "hit_rate: share of right answers",
                       {"hit_rate is taken before reward_shift": hits + shift})  # fmt: skip
            self.assertEqual(stats.skipped.dtype, torch.bool, "skipped is a bool tensor")
            self.close(stats.skipped, (hits == 0) | (hits == 1), "skipped: all advantages are 0",
                       {"skipped is inverted": (hits != 0) & (hits != 1)})  # fmt: skip
            self.close(
                stats.clip_fraction, np.zeros(4), "one update: the ratio is 1, nothing is clipped"
            )

    def test_without_any_signal_the_table_stays(self):
        policy, ref = random_table(3), random_table(3, seed=1).logits.detach()
        before = policy.logits.detach().clone()
        for gold in (torch.full((3,), 99), None):  # all-wrong; then all-right: one sure answer
            if gold is None:
                policy.logits.data[:, 4] = 99.0
                before, gold = policy.logits.detach().clone(), torch.full((3,), 4)
            stats = grpo.grpo_step(
                policy, ref, torch.arange(3), gold, grpo.Config(kl_beta=1.0), rng()
            )
            self.assertTrue(bool(stats.skipped.all()), "all rewards equal: skipped")
            self.same(policy.logits, before, "without a signal nothing moves, not even by the KL")

    def test_expected_push_by_enumerating_the_hits(self):
        for p, expected in ((1 / 13, 0.170), (0.9, 0.210)):
            self.close(expected_push(p), expected, "the enumeration", tol=1e-3)
            cases = {
                "GRPO": (expected_push(p), "grpo", {}),
                "Dr.GRPO": (7 / 8 * p * (1 - p), "grpo", {"std_norm": False}),
                "REINFORCE": (p * (1 - p), "reinforce", {}),
            }
            for name, (push, method, settings) in cases.items():
                moved = measured_push(method, p, **settings)
                hint = f"{name} at p = {p:.2f} must push the right logit by {push:.3f} on average"
                self.assertLess(abs(float(moved.mean()) - push), 5 * standard_error(moved), hint)


class TestReinforceStep(StepCase):
    def test_equals_the_numbers_by_hand(self):
        for settings in ({}, {"lr": 0.5}, {"reward_shift": 1.5}, {"group": 3}):
            before, _, answers, gold, config, policy, stats = self.step("reinforce", **settings)
            table, summed, baseline, golden = (before.copy() for _ in range(4))
            hits = answers == gold[:, None]
            for row, drawn, right, hit in zip(self.ROWS.numpy(), answers, gold, hits, strict=True):
                p, r = softmax(before[row]), hit + config.reward_shift
                push = r[:, None] * (np.eye(13)[drawn] - p)  # r_i d log p(o_i) / d logit_j
                table[row] += config.lr * push.mean(0)
                summed[row] += config.lr * push.sum(0)
                baseline[row] += config.lr * (
                    (r - r.mean())[:, None] * (np.eye(13)[drawn] - p)
                ).mean(0)
                golden[row] += config.lr * (r[:, None] * (np.eye(13)[right] - p)).mean(0)
            mistakes = {
                "mean over the group, not sum": summed,
                "no baseline here: the weight is the reward itself": baseline,
                "push the answers that were sampled, not the right one": golden,
                "the sign is wrong: minimise -mean(r * logp)": 2 * before - table,
            }
            if "reward_shift" not in settings:
                del mistakes["push the answers that were sampled, not the right one"]
            hint = f"theta + lr * mean_i r_i grad log pi(o_i), with {settings}"
            self.close(policy.logits, table, hint, mistakes, tol=1e-5)
            self.close(stats.hit_rate, hits.mean(-1), "hit_rate: share right, before reward_shift")
            self.close(stats.skipped, np.zeros(4), "REINFORCE skips nothing", tol=0)
            self.close(stats.clip_fraction, np.zeros(4), "REINFORCE clips nothing", tol=0)
            self.assertEqual(stats.skipped.dtype, torch.bool, "skipped is a bool tensor")


class TestTrain(Case):
    GOLD = torch.arange(36) // 6 + torch.arange(36) % 6

    def test_records_every_step_of_every_run(self):
        policy, config = random_table(72), grpo.Config(steps=5)
        ref, kept = numbers(policy), []
        for method in ("grpo", "reinforce"):
            for record in grpo.train(policy, method, config):
                p, q = softmax(numbers(policy)), softmax(ref)
                kl = (p * np.log(p / q)).sum(-1).reshape(2, 36).mean(-1)
                gold = self.GOLD.repeat(2, 1)
                self.close(
                    record.accuracy, grpo.accuracy(policy, gold), "accuracy [R] after the step"
                )
                self.close(
                    record.sampled_accuracy, grpo.sampled_accuracy(policy, gold), "sampled [R]"
                )
                self.close(record.kl, kl, "mean over the 36 rows of KL to the table at the start: "
                           "clone the reference, or it moves with the table")  # fmt: skip
                self.assertEqual(record.stats.hit_rate.shape, (2,), "stats: a value per run")
                kept.append((record, [x.clone() for x in (*record[:3], *record.stats)]))
            ref = numbers(policy)
        self.assertEqual(len(kept), 10, "one record per step, config.steps of them")
        for record, copies in kept:
            for x, copy in zip((*record[:3], *record.stats), copies, strict=True):
                self.same(x, copy, "a record must not change with later steps: no views")

    def test_refuses_unknown_methods_and_broken_tables_at_the_first_next(self):
        for policy, method in ((grpo.AnswerPolicy(), "ppo"), (grpo.AnswerPolicy(37), "grpo"),
                               (grpo.AnswerPolicy(0), "grpo")):  # fmt: skip
            steps = grpo.train(policy, method, grpo.Config())  # a generator: nothing happens yet
            self.refuses(
                ValueError, next, steps, hint=f"{method}, {len(policy.logits)} rows: ValueError"
            )

    def test_divergence_names_the_step_and_the_lr(self):
        for method in ("grpo", "reinforce"):
            policy = grpo.AnswerPolicy(36 * 64)
            steps = grpo.train(policy, method, grpo.Config(lr=1e39))
            message = self.refuses(
                FloatingPointError, list, steps, hint="non-finite logits: FloatingPointError"
            )
            self.assertRegex(message, r"step 1\b.*\blr\b|step 1\b.*learning rate")

    def test_a_seed_is_the_whole_luck(self):
        def curve(seed):
            records = grpo.train(grpo.AnswerPolicy(72), "grpo", grpo.Config(steps=30, seed=seed))
            return torch.stack([r.sampled_accuracy for r in records])

        state = torch.get_rng_state()
        first = curve(1)
        self.same(torch.get_rng_state(), state, "leave the global random state alone")
        torch.manual_seed(5)
        self.same(curve(1), first, "same seed, same curve, whatever ran before")
        torch.set_rng_state(state)
        self.assertFalse(torch.equal(curve(2), first), "config.seed is ignored")

    def test_a_step_draws_one_question_per_run_uniformly(self):
        policy = grpo.AnswerPolicy(36 * 400)
        moved = torch.zeros(400, 36)
        before = policy.logits.detach().clone()
        for _ in grpo.train(policy, "reinforce", grpo.Config(steps=10, reward_shift=1.0)):
            rows = (policy.logits.detach() != before).any(-1).view(400, 36)
            self.close(rows.sum(-1), np.ones(400), "each run updates one row of its own per step")
            moved += rows
            before = policy.logits.detach().clone()
        share = moved.sum(0) / moved.sum()
        error = (share - 1 / 36).abs() / math.sqrt(1 / 36 * 35 / 36 / 4000)
        self.assertLess(float(error.max()), 5, "draw the 36 questions uniformly")

    def test_greedy_accuracy_is_the_same_for_both_and_has_a_closed_form(self):
        # A row leads with the right answer once a group has hit it, whatever the method:
        # a question is drawn (1/36) and hit (1 - (12/13)^8) in one of 120 steps.
        curves = [torch.stack([r.accuracy for r in trained(m)[1]]) for m in ("grpo", "reinforce")]
        self.same(
            *curves, "one seed, one luck: both methods must draw the same questions and answers"
        )
        hit = 1 - (1 - (1 - (12 / 13) ** 8) / 36) ** 120
        expected = hit + (1 - hit) / 13
        self.close(expected, 0.811, "the closed form", tol=1e-3)
        error = abs(float(curves[0][-1].mean()) - expected)
        self.assertLess(error, 5 * standard_error(curves[0][-1]), "greedy accuracy after 120 steps")

    def test_sampled_accuracy_separates_the_methods(self):
        for method, settings, expected in (
            ("grpo", {}, 0.611), ("reinforce", {}, 0.333), ("grpo", {"std_norm": False}, 0.290),
            ("grpo", {"lr": 0.08}, 0.081), ("grpo", {"kl_beta": 1.0}, 0.300), ("grpo", {"group": 2}, 0.290),
        ):  # fmt: skip
            got = sampled(method, **settings)
            error = abs(float(got.mean()) - expected)
            self.assertLess(
                error,
                6 * standard_error(got) + 1e-3,
                f"{method} {settings}: {got.mean():.3f}, not {expected}",
            )
        lead = sampled("grpo") - sampled("reinforce")
        self.assertGreater(
            float(lead.mean()), 10 * standard_error(lead), "paired lead of GRPO at lr 4"
        )

    def test_the_lead_is_a_step_size(self):
        # Dr.GRPO's expected push is (G - 1)/G of REINFORCE's: at lr 4 * 8/7 they are equal.
        gap = sampled("grpo", std_norm=False, lr=4 * 8 / 7) - sampled("reinforce")
        self.assertLess(
            abs(float(gap.mean())), 5 * standard_error(gap), "Dr.GRPO at lr * G/(G-1) is REINFORCE"
        )
        for method in ("grpo", "reinforce"):
            greedy = trained(method, lr=64.0)[1][-1].accuracy
            gap = greedy - sampled(method, lr=64.0)
            self.assertLess(
                float(gap.mean()), 0.02, f"{method} at lr 64 samples as well as it could"
            )

    def test_grpo_ignores_where_rewards_start_and_reinforce_does_not(self):
        for plain, shifted in zip(
            trained("grpo")[1], trained("grpo", reward_shift=1.0)[1], strict=True
        ):
            self.same(
                plain.sampled_accuracy, shifted.sampled_accuracy, "z-scores do not see a shift"
            )
        greedy = trained("reinforce", reward_shift=1.0)[1][-1].accuracy
        error = abs(float(greedy.mean()) - 0.40)
        self.assertLess(
            error, 5 * standard_error(greedy), "paid 1 and 2, REINFORCE locks in: greedy 0.40"
        )

    def test_skipped_groups_are_p_to_the_g_and_its_mirror(self):
        stats = [r.stats for r in trained("grpo")[1]]
        expected = []  # the prediction from the table before each step, averaged over its 36 rows
        policy = grpo.AnswerPolicy(36 * 64)
        for _ in itertools.chain([None], grpo.train(policy, "grpo", grpo.Config())):
            p = torch.tensor(softmax(numbers(policy)))[torch.arange(36 * 64), self.GOLD.repeat(64)]
            expected.append(float((p**8 + (1 - p) ** 8).mean()))
        self.close(expected[0], (1 / 13) ** 8 + (12 / 13) ** 8, "0.527 at the uniform start")
        share = torch.stack([s.skipped.double() for s in stats])  # [steps, R]
        gap = share.mean(0) - np.mean(expected[:-1])
        self.assertLess(
            abs(float(gap.mean())), 5 * standard_error(gap), "skipped share = p^G + (1-p)^G"
        )
        self.assertFalse(any(s.skipped.any() for s in [r.stats for r in trained("reinforce")[1]]))

    def test_dynamic_sampling_is_the_plain_run_without_its_skipped_steps(self):
        config = grpo.Config(steps=200, seed=7)
        policy = grpo.AnswerPolicy()
        plain = [r for r in grpo.train(policy, "grpo", config) if not r.stats.skipped.all()]
        redrawn, generator = grpo.AnswerPolicy(), rng(7)
        ref = redrawn.logits.detach().clone()
        for record in plain:
            while True:  # draw again until the group has a signal, as DAPO does
                q = torch.randint(36, (1,), generator=generator)
                state = generator.get_state()
                answers, _ = grpo.sample_answers(redrawn, q, 8, generator)
                if 0 < int((answers == self.GOLD[q]).sum()) < 8:
                    break
            generator.set_state(state)
            grpo.grpo_step(redrawn, ref, q, self.GOLD[q], config, generator)
            self.same(grpo.accuracy(redrawn, self.GOLD), record.accuracy[0], "redrawing = skipping")
        self.same(redrawn.logits, policy.logits, "redrawing and skipping end in the same table")
        self.assertGreater(len(plain), 50)


# ---------------------------------------------------------------- the command line


def output(*argv: str, stdout=None) -> tuple[int, str, str]:
    """Run main(argv) -> (exit status, stdout, stderr)."""
    out, err = stdout or io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = grpo.main(list(argv))
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


@functools.cache
def summary(flags: str) -> dict[str, tuple[float, float]]:
    """What `python from_scratch.py FLAGS` prints: {label: (figure, 95% half-width)}."""
    code, text, err = output(*flags.split())
    if code:
        raise ValueError(err.strip())
    found = re.findall(r"^(GRPO|REINFORCE)( [-\w ]+?) +(-?\d\.\d+)(?: \+/- (\S+))?", text, re.M)
    return {name + what: (float(mean), float(half or "nan")) for name, what, mean, half in found}


class ClosedPipe(io.StringIO):
    """A stdout that raises `error` at its second write, with a file descriptor of its own."""

    def __init__(self, error, after=1):
        super().__init__()
        self.error, self.after, self.file = error, after, tempfile.TemporaryFile()

    def write(self, text):
        self.after -= 1
        if self.after < 0:
            raise self.error
        return super().write(text)

    def fileno(self):
        return self.file.fileno()


class TestMain(Case):
    LABELS = ("GRPO sampled", "GRPO greedy", "REINFORCE sampled", "REINFORCE greedy",
              "GRPO - REINFORCE sampled", "GRPO skipped all-wrong", "GRPO skipped all-right",
              "GRPO KL", "REINFORCE KL", "GRPO clip fraction")  # fmt: skip

    def test_the_summary_is_what_training_gives(self):
        flags = {"runs": 5, "steps": 60, "group": 4, "lr": 3.0, "epochs": 2, "clip_eps": 0.3,
                 "clip_eps_high": 0.5, "kl_beta": 0.1, "reward_shift": 0.5, "seed": 3}  # fmt: skip
        argv = [part for k, v in flags.items() for part in ("--" + k.replace("_", "-"), str(v))]
        got = summary(" ".join([*argv, "--no-std-norm"]))
        a, b = (list(grpo.train(grpo.AnswerPolicy(180), m, grpo.Config(std_norm=False, **flags)))
                for m in ("grpo", "reinforce"))  # fmt: skip
        skipped = torch.stack([r.stats.skipped for r in a]).double()
        hit, clip = (
            torch.stack([getattr(r.stats, k) for r in a]) for k in ("hit_rate", "clip_fraction")
        )
        figures = (
            a[-1].sampled_accuracy, a[-1].accuracy, b[-1].sampled_accuracy, b[-1].accuracy,
            a[-1].sampled_accuracy - b[-1].sampled_accuracy,
            (skipped * (hit == 0)).mean(0), (skipped * (hit == 1)).mean(0), a[-1].kl, b[-1].kl,
            clip.sum(0) / (1 - skipped).sum(0),
        )  # fmt: skip
        self.assertEqual(tuple(got), self.LABELS, "the labels of the summary")
        for label, values in zip(self.LABELS, figures, strict=True):
            half = 1.96 * float(values.double().std()) / 5**0.5
            self.close(got[label], (float(values.double().mean()), half),
                       f"{label}: mean over the runs and 1.96 sd / sqrt(R)", tol=6e-4)  # fmt: skip
        self.assertTrue(got["GRPO clip fraction"][0] > 0.02)

    def test_rows_come_every_tenth_of_the_steps(self):
        _, text, _ = output("--runs", "2", "--steps", "57")
        rows = [line.split() for line in text.splitlines() if re.match(r" +\d+ +0\.", line)]
        self.assertEqual(
            [int(r[0]) for r in rows], list(range(5, 56, 5)), "a row every steps // 10"
        )
        records = [
            list(grpo.train(grpo.AnswerPolicy(72), m, grpo.Config(steps=57)))
            for m in ("grpo", "reinforce")
        ]
        for row in rows:
            t = int(row[0])
            a, b = (r[t - 1] for r in records)
            since = [r.stats for r in records[0][t - 5 : t]]
            want = [a.sampled_accuracy.mean(), a.accuracy.mean(), b.sampled_accuracy.mean(), b.accuracy.mean(),
                    *(np.mean([(s.skipped & (s.hit_rate == k)).double().mean() for s in since]) for k in (0, 1))]  # fmt: skip
            self.close([float(x) for x in row[1:]], want, f"the row of step {t}", tol=6e-4)
        self.assertEqual(
            len(re.findall(r"^ +\d+ +0\.", output("--runs", "1", "--steps", "3")[1], re.M)), 3
        )

    def test_shows_settings_table_and_what_to_look_at(self):
        code, text, err = output("--steps", "100", "--kl-beta", "0.5")
        lines = text.splitlines()
        self.assertEqual((code, err), (0, ""), "a good run: status 0, nothing on stderr")
        for word in ("steps 100", "runs 64", "group 8", "lr 4.0", "kl_beta 0.5", "seed 42"):
            self.assertIn(
                word, lines[0], "the header names what is trained, and all that was changed"
            )
        self.assertNotIn("epochs", lines[0])
        self.assertLessEqual(max(map(len, output()[1].splitlines())), 80, "80 columns")
        self.assertTrue(text.isascii(), "ASCII survives every terminal")
        self.assertRegex(text, r"\nseconds +\d+\.\d\n")
        self.assertEqual("nothing to clip" in text, True)
        self.assertNotIn("nothing to clip", output("--epochs", "2", "--steps", "5")[1])
        self.assertIn("sampled accurac", lines[-1], "the last line says what to look at")
        policy, _ = trained("grpo", steps=100, kl_beta=0.5)
        start = next(i for i, line in enumerate(lines) if line.startswith("a\\b"))
        for a in range(6):
            cells = lines[start + 1 + a].split()[1:]
            for b, row in enumerate(numbers(policy)[6 * a : 6 * a + 6]):
                best = np.flatnonzero(row == row.max())
                want = "?" if len(best) > 1 else f"{best[0]}" + ("!" if best[0] != a + b else "")
                self.assertEqual(cells[b], want, "the table shows run 0's likeliest answers")

    def test_marks_a_wrong_answer(self):
        # paid 1 and 2 with one answer or two, a row can lock into what it sampled first
        policy, _ = trained(
            "grpo", banks=1, group=2, epochs=8, clip_eps=0.9, clip_eps_high=1e9, lr=9.0, seed=1
        )
        best = numbers(policy).argmax(-1)
        text = output(
            *"--runs 1 --group 2 --epochs 8 --clip-eps 0.9 --clip-eps-high 1e9 --lr 9 --seed 1".split()
        )[1]
        touched = numbers(policy).max(-1) > 0
        wrong = int((touched & (best != TestTrain.GOLD.numpy())).sum())
        self.assertEqual(text.split("a\\b")[1].count("!"), wrong)
        self.assertNotIn("+/-", text, "one run has no error bar")

    def test_bad_flags_end_with_the_flag_and_its_rule(self):
        for flags in ("--group 1", "--lr nan", "--lr -1", "--steps 0", "--clip-eps 2", "--kl-beta -1",
                      "--seed x", "--seed -1", "--wrong 3", "--clip-eps-high -1", "--step 5", "--std-norm 1",
                      "--reward-shift inf", "--runs 1.5", "--epochs 0"):  # fmt: skip
            code, out, err = output(*flags.split())
            self.assertEqual((code, out), (2, ""), f"{flags}: exit status 2")
            lines = err.strip().split("\n")
            self.assertEqual(len(lines), 2, f"{flags}: one line of usage, one that names the flag")
            self.assertIn("usage" if flags != "" else "", lines[0])
            if flags not in ("--std-norm 1",):
                self.assertIn(flags.split()[0], lines[1], f"{flags}: name the flag")

    def test_help_names_every_flag(self):
        code, text, _ = output("--help")
        self.assertEqual(code, 0)
        for name in TestConfig.DEFAULTS:
            self.assertIn("--" + name.replace("_", "-"), text)
        self.assertIn("--no-std-norm", text)
        for name in ("epochs", "clip-eps", "clip-eps-high", "kl-beta", "std-norm"):
            self.assertRegex(
                text, rf"(?s)--{name}\b.{{0,60}}GRPO only", f"--{name} touches GRPO alone"
            )
        self.assertIn("(default: 0.02)", text)

    def test_divergence_is_one_line(self):
        code, _, err = output("--lr", "1e39")
        self.assertEqual((code, err.count("\n")), (1, 1), "divergence: one line, status 1")
        self.assertIn("step 1", err)

    def test_a_closed_pipe_ends_quietly_and_a_full_disk_with_one_line(self):
        for error, lines in (
            (BrokenPipeError(32, "Broken pipe"), 0),
            (OSError(28, "No space left"), 1),
        ):
            for out in (ClosedPipe(error), ClosedPipe(error, after=10**9)):
                if out.after > 1:
                    out.flush = out.file.flush  # only the last flush fails
                    out.flush = functools.partial(self.raise_late, out, error)
                code, _, err = output("--steps", "2", "--runs", "1", stdout=out)
                self.assertEqual((code, err.count("\n")), (1, lines), f"{error}: status 1")
                self.assertEqual(os.fstat(out.fileno()).st_rdev, os.stat(os.devnull).st_rdev,
                                 "what is still buffered must go nowhere")  # fmt: skip

    @staticmethod
    def raise_late(out, error):
        if "Compare" in out.getvalue():
            raise error

    def test_ctrl_c_says_how_far_it_got(self):
        stdout = ClosedPipe(KeyboardInterrupt(), after=8)
        code, text, err = output("--steps", "20", "--runs", "1", stdout=stdout)
        self.assertEqual(code, 130, "Ctrl-C: status 130")
        last = (
            int(re.findall(r"^ +(\d+) +0\.", text, re.M)[-1])
            if re.search(r"^ +\d+ +0\.", text, re.M)
            else 0
        )
        steps = int(re.search(r"step (\d+) of 20", err)[1])
        self.assertEqual(steps, last + 2, "the step that Ctrl-C hit")

    def test_runs_on_one_thread(self):
        torch.set_num_threads(2)
        output("--steps", "1", "--runs", "1")
        self.assertEqual(torch.get_num_threads(), 1, "tensors this small are faster on one thread")


# ---------------------------------------------------------------- the README


ROW = re.compile(r"^\| `python from_scratch\.py ?(.*?)` \|(.*)\|$")


@functools.cache
def readme() -> list[str]:
    return (HERE / "README.md").read_text(encoding="utf-8").splitlines()


def measured_rows() -> list[tuple[int, str, dict[str, float]]]:
    """(line number, flags, {label: figure}) of each row that is a command."""
    rows, heads = [], []
    for number, line in enumerate(readme(), 1):
        if line.startswith("| 命令 / Command |"):
            heads = [cell.strip() for cell in line.strip("|").split("|")[1:]]
        if match := ROW.match(line):
            cells = [float(cell) for cell in match[2].split("|")]
            rows.append((number, match[1], dict(zip(heads, cells, strict=True))))
    return rows


@functools.cache
def measured() -> dict[str, dict[str, tuple[float, float]]]:
    """Run every command of the README, on all cores -> {flags: summary}."""
    commands = list(dict.fromkeys(flags for _, flags, _ in measured_rows()))
    print(f"measuring the README's {len(commands)} commands ", end="", flush=True, file=sys.__stdout__)
    results = {}
    with concurrent.futures.ProcessPoolExecutor() as pool:
        for flags, result in zip(commands, pool.map(summary, commands), strict=True):
            results[flags] = result
            print(end=".", flush=True, file=sys.__stdout__)
    print(file=sys.__stdout__)
    return results


class TestReadme(Case):
    """Every number in README.md is measured again; a failure names its line."""

    seconds = 300

    def setUp(self):
        super().setUp()
        if grpo.__file__ != str(ORIGINAL):
            self.skipTest("README.md belongs to from_scratch.py")

    def at(self, number, text):
        self.fail(f"README.md:{number}: {text}")

    def test_every_measured_row(self):
        rows = measured_rows()
        self.assertGreater(len(rows), 30)
        for number, flags, cells in rows:
            for label, figure in cells.items():
                got = measured()[flags].get(label, (math.nan,))[0]
                if not abs(got - figure) <= 0.02:
                    self.at(number, f"`{flags}` gives {label} {got:.3f}, not {figure}")

    def test_every_doctest(self):
        text = "\n".join(readme())
        test = doctest.DocTestParser().get_doctest(text, {}, "README.md", "README.md", 0)
        self.assertGreater(len(test.examples), 40)
        failures = []
        runner = doctest.DocTestRunner(verbose=False)
        runner.report_failure = lambda out, t, example, got: failures.append((example, got))
        runner.report_unexpected_exception = lambda out, t, example, error: failures.append((example, error[1]))
        runner.run(test, clear_globs=False)
        for example, got in failures:
            self.at(example.lineno + 1, f"{example.source.strip()} gives {str(got).strip()}")

    def test_the_output_block(self):
        start = readme().index("<!-- output -->") + 2
        block = readme()[start : readme().index("```", start)]
        printed = output()[1].splitlines()
        figure = re.compile(r"-?\d+\.\d+")
        for number, (old, new) in enumerate(zip(block, printed, strict=True), start + 1):
            if figure.sub("#", old) != figure.sub("#", new):
                self.at(number, f"the program prints {new!r}")
            for a, b in zip(figure.findall(old), figure.findall(new), strict=True):
                if abs(float(a) - float(b)) > 0.02 and not old.startswith("seconds"):
                    self.at(number, f"the program prints {new!r}")

    def test_the_charts(self):
        rows = [line.split() for line in output()[1].splitlines() if re.match(r" +\d+ +0\.", line)]
        columns = {"GRPO sampled": 1, "greedy, both": 2, "REINFORCE sampled": 3, "all-wrong": 5,
                   "all-right": 6}  # fmt: skip
        found = []
        for number, line in enumerate(readme(), 1):
            if match := re.match(r' +(?:x-axis|line) "(.+)" \[(.+)\]', line):
                column = columns.get(match[1], 0)  # 0: the steps
                found.append(column)
                for drawn, row in zip(match[2].split(","), rows, strict=True):
                    if abs(float(drawn) - float(row[column])) > 0.02:
                        self.at(number, f"{match[1]} at step {row[0]} is {row[column]}, not {drawn}")
        self.assertEqual(sorted(found), [0, 0, 1, 2, 3, 5, 6])

    def test_the_flag_table(self):
        table = {}
        for number, line in enumerate(readme(), 1):
            if match := re.match(r"\| `--([a-z-]+)` \| ([^|]+) \|", line):
                table[match[1].replace("-", "_")] = match[2]
                want = TestConfig.DEFAULTS.get(match[1].replace("-", "_"), "no such flag")
                if match[2] != str(want):
                    self.at(number, f"--{match[1]} is {want}, not {match[2]}")
        self.assertEqual(list(table), list(TestConfig.DEFAULTS), "README.md: every flag, in order")

    def test_numbers_in_prose_stand_in_a_row_or_a_doctest(self):
        fenced, known, prose = False, set(), []
        for number, line in enumerate(readme(), 1):
            fenced ^= line.startswith("```")
            figures = re.findall(r"(?<![\d.:])\d\.\d{3}(?!\d)", line)
            if fenced or ROW.match(line):
                known.update(figures)
            elif not line.startswith("| `--"):  # the libraries' defaults
                prose += [(number, figure) for figure in figures]
        self.assertGreater(len(prose), 5)
        for number, figure in prose:
            if figure not in known:
                self.at(number, f"{figure} is in no measured row and no doctest")


# ---------------------------------------------------------------- figures

BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#999999"  # told apart by the colour-blind, and in grey


def show(axes, title, x_label, y_label):
    axes.set(title=title, xlabel=x_label, ylabel=y_label)
    axes.grid(alpha=0.25)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=8, framealpha=0.9)


def draw_curves(folder: Path) -> Path:
    """Figure 1: accuracy of both methods, and the groups that GRPO skips."""
    import matplotlib

    matplotlib.use("Agg")  # no window, no display
    import matplotlib.pyplot as plt

    records = {method: trained(method)[1] for method in ("grpo", "reinforce")}
    x = np.arange(1, 121)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for method, colour in (("grpo", BLUE), ("reinforce", ORANGE)):
        runs = torch.stack([r.sampled_accuracy for r in records[method]]).numpy()  # [steps, R]
        left.plot(
            x, runs.mean(1), color=colour, label=f"{method.upper()}, sampled (band: 80% of runs)"
        )
        left.fill_between(x, *np.quantile(runs, (0.1, 0.9), axis=1), color=colour, alpha=0.2, lw=0)
    greedy = torch.stack([r.accuracy for r in records["grpo"]]).numpy().mean(1)
    hit = 1 - (1 - (1 - (12 / 13) ** 8) / 36) ** x
    left.plot(x, greedy, "--", color="black", lw=1, label="greedy, both methods alike")
    left.plot(x, hit + (1 - hit) / 13, ":", color=GREY, lw=2.5, label="greedy, closed form")
    left.set_ylim(0, 1)
    show(left, "Sampled accuracy tells the methods apart, greedy cannot", "step", "accuracy")

    stats = [r.stats for r in records["grpo"]]
    wrong, right_ = (
        np.array([float((s.skipped & (s.hit_rate == k)).float().mean()) for s in stats])
        for k in (0, 1)
    )
    right.stackplot(
        x, wrong, right_, colors=(GREY, BLUE), alpha=0.6, labels=("all wrong", "all right")
    )
    right.plot(x, predicted_skips(), color="black", lw=1.5, label="prediction $p^G + (1-p)^G$")
    right.set_ylim(0, 1)
    show(
        right, "A group that agrees with itself teaches nothing", "step", "share of groups skipped"
    )
    path = folder / "grpo_vs_reinforce.png"
    figure.savefig(path, dpi=120)
    plt.close(figure)
    return path


def draw_follow_ups(folder: Path) -> Path:
    """Figure 2: a panel for each follow-up question that a number can answer."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 3, figsize=(15, 8), layout="constrained")
    drawings = (draw_shift, draw_clip, draw_kl, draw_group, draw_push, draw_dynamic_sampling)
    for axes, draw in zip(panels.flat, drawings, strict=True):
        draw(axes)
    path = folder / "follow_ups.png"
    figure.savefig(path, dpi=110)
    plt.close(figure)
    return path


def row(flags: str, label: str) -> float:
    return measured()[flags][label][0]


def draw_shift(axes):
    for shift, style in ((0.0, "-"), (1.0, "--")):
        for method, colour in (("grpo", BLUE), ("reinforce", ORANGE)):
            records = trained(method, **({"reward_shift": shift} if shift else {}))[1]
            y = [float(r.accuracy.mean()) for r in records]
            axes.plot(range(1, 121), y, style, color=colour, lw=1.5 if shift else 3,
                      alpha=1 if shift else 0.45, label=f"{method.upper()}, paid {shift:.0f} or {shift + 1:.0f}")  # fmt: skip
    show(axes, "Pay 1 and 2: GRPO does not notice", "step", "greedy accuracy")


def draw_clip(axes):
    base = "--epochs 8 --lr 0.5"
    bars = {
        "both bounds 0.2": base, "upper 0.28": f"{base} --clip-eps-high 0.28",
        "upper open": f"{base} --clip-eps-high 1e9", "both open": f"{base} --clip-eps 0.999 --clip-eps-high 1e9",
    }  # fmt: skip
    accuracies = [row(flags, "GRPO sampled") for flags in bars.values()]
    clipped = [row(flags, "GRPO clip fraction") for flags in bars.values()]
    y = np.arange(len(bars))
    axes.barh(y - 0.2, accuracies, 0.4, color=BLUE, label="sampled accuracy")
    axes.barh(y + 0.2, clipped, 0.4, color=GREY, label="clip fraction")
    axes.set_yticks(y, list(bars))
    axes.invert_yaxis()
    show(axes, "With 8 epochs the clip slows learning down", "after 120 steps, lr 0.5", "")


def draw_kl(axes):
    flags = {"0": "--kl-beta 0", "0.02": "", "0.5": "--kl-beta 0.5", "1": "--kl-beta 1"}
    axes.plot(list(flags), [row(f, "GRPO sampled") for f in flags.values()], "o-", color=BLUE, label="sampled accuracy")
    axes.plot(list(flags), [row(f, "GRPO KL") for f in flags.values()], "s--", color=ORANGE, label="KL to the reference, nats")
    axes.set_ylim(0)
    show(axes, "KL weight: nothing at 0.02, a leash at 1", "beta", "after 120 steps")


def draw_group(axes):
    sizes = (2, 8, 64)
    updates = [row(f, "GRPO sampled") for f in ("--group 2", "", "--group 64")]
    samples = [row(f, "GRPO sampled") for f in ("--group 2 --steps 480", "", "--group 64 --steps 15")]
    axes.plot(sizes, updates, "o-", color=BLUE, label="equal updates (120)")
    axes.plot(sizes, samples, "s--", color=ORANGE, label="equal samples per run (960)")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.set_ylim(0, 1)
    show(axes, "Larger groups: better updates, fewer of them", "group size G", "GRPO, sampled accuracy")


def draw_push(axes):
    p = np.linspace(0.001, 0.999, 200)
    axes.plot(p, [expected_push(x) for x in p], color=BLUE, label="GRPO, G = 8 (enumerated)")
    axes.plot(p, np.sqrt(p * (1 - p)), ":", color=BLUE, label="its limit $\\sqrt{p(1-p)}$")
    axes.plot(p, p * (1 - p), color=ORANGE, label="REINFORCE, $p(1-p)$")
    for method, mark, colour in (("grpo", "o", BLUE), ("reinforce", "s", ORANGE)):
        points = [(x, float(measured_push(method, x).mean())) for x in (0.05, 0.2, 0.5, 0.8, 0.95)]
        axes.plot(*zip(*points, strict=True), mark, color=colour, mec="white", label=f"{method.upper()}, measured")
    show(axes, "Dividing by the std amplifies rare hits", "success probability p of a question",
         "mean push on the right logit, lr 1")  # fmt: skip


def draw_dynamic_sampling(axes):
    records = trained("grpo", steps=320)[1]
    accuracy = torch.stack([r.sampled_accuracy for r in records])  # [steps, R]
    counts = torch.stack([~r.stats.skipped for r in records]).cumsum(0)
    x = torch.arange(1, 121)
    at = torch.stack([(counts < n).sum(0) for n in x])  # [120, R], the step of each run's n-th signal
    drawn = (at + 1).double().mean(1)
    counted = accuracy.gather(0, at).mean(1)
    axes.plot(x, accuracy[:120].mean(1), color=GREY, lw=3, label="plain run, against its steps")
    axes.plot(x, counted, color=BLUE, label="Dynamic Sampling, against updates")
    axes.plot(drawn, counted, "--", color=ORANGE, label="Dynamic Sampling, against groups drawn")
    show(axes, "Dynamic Sampling saves updates, not samples", "updates, or groups drawn", "sampled accuracy")


def predicted_skips(runs: int = 64) -> np.ndarray:
    """p^G + (1-p)^G before each step of GRPO, averaged over the tables, [steps]."""
    policy, gold = grpo.AnswerPolicy(36 * runs), grpo.build_bank()[1].repeat(runs)
    shares = []
    for _ in itertools.chain([None], grpo.train(policy, "grpo", grpo.Config())):
        p = policy.logits.detach().softmax(-1).gather(-1, gold[:, None])
        shares.append(float((p**8 + (1 - p) ** 8).mean()))
    return np.array(shares[:-1])


# ---------------------------------------------------------------- the grader


class Report(unittest.TestResult):
    """Says what failed, a line or two a test, as soon as it does."""

    def __init__(self, path: Path, verbose: bool):
        super().__init__()
        self.path, self.verbose, self.passed, self.failed = path, verbose, 0, 0
        self.out = sys.stdout  # tests run with theirs redirected

    def tell(self, word, test, text=""):
        name = test._testMethodName.removeprefix("test_").replace("_", " ")
        print(
            f"{word} {type(test).__name__.removeprefix('Test')}: {name}" + text,
            file=self.out,
            flush=True,
        )

    def addSuccess(self, test):
        self.passed += 1
        if self.verbose:
            self.tell("ok  ", test)

    def addFailure(self, test, error):
        self.failed += 1
        self.tell("FAIL", test, f"\n     {where(error[1], self.path)}{describe(error[1])}")
        if self.verbose and not isinstance(error[1], NotImplementedError):
            print(*traceback.format_exception(*error), sep="", file=self.out)

    addError = addFailure

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        if self.verbose:
            self.tell("skip", test, f" ({reason})")


def blank(source: str) -> str:
    """The exercise: from_scratch.py with every body from build_bank to train left to write."""
    lines = source.splitlines()
    functions = []
    for node in ast.parse(source).body:
        functions += [f for f in ast.walk(node) if isinstance(f, ast.FunctionDef)]
    names = [f.name for f in functions]
    for f in reversed(functions[names.index("build_bank") : names.index("train") + 1]):
        start = f.body[0].end_lineno if ast.get_docstring(f) else f.body[0].lineno - 1
        lines[start : f.end_lineno] = [
            "    " * (f.col_offset // 4 + 1) + "raise NotImplementedError"
        ]
    return "\n".join(lines) + "\n"


def write_blank(path: Path) -> None:
    with open(path, "x", encoding="utf-8") as file:
        file.write(blank(ORIGINAL.read_text(encoding="utf-8")))
    print(
        f"wrote {path}: replace each `raise NotImplementedError`, then: python test_grpo.py {path}"
    )


def grade(path: Path, pattern: str, verbose: bool) -> Report:
    """Run the tests whose name contains `pattern` on the file that is loaded."""
    loader = unittest.TestLoader()
    loader.testNamePatterns = [f"*{pattern}*"]
    report = Report(path, verbose)
    loader.loadTestsFromModule(sys.modules[__name__]).run(report)
    return report


def main(argv=None) -> int:
    global grpo
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "file", nargs="?", type=Path, default=ORIGINAL, help="what to test (from_scratch.py)"
    )
    parser.add_argument(
        "--blank", type=Path, metavar="FILE", help="write the exercise to FILE, never over a file"
    )
    parser.add_argument("--no-plots", action="store_true", help="test only")
    parser.add_argument(
        "--out", type=Path, default=Path(), metavar="DIR", help="folder for the figures (.)"
    )
    parser.add_argument(
        "-k", default="", metavar="PATTERN", help="only tests whose name contains PATTERN"
    )
    parser.add_argument("-v", action="store_true", help="name every test, show tracebacks")
    args = parser.parse_args(argv)
    try:
        if args.blank:
            write_blank(args.blank)
            return 0
        if not args.no_plots:
            args.out.mkdir(parents=True, exist_ok=True)
        if args.file.resolve() != ORIGINAL:
            grpo = load(args.file)
        report = grade(args.file, args.k, args.v)
        if not args.no_plots and not report.failed and not args.k:
            print("wrote", draw_curves(args.out))
            if grpo.__file__ == str(ORIGINAL):
                print("wrote", draw_follow_ups(args.out))
    except (ImportError, OSError) as error:
        print(f"test_grpo.py: {error}", file=sys.stderr)
        return 2
    skipped = f", {len(report.skipped)} skipped" if report.skipped else ""
    print(f"{report.passed} passed, {report.failed} failed{skipped}")
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
