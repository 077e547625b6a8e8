# /// script
# requires-python = ">=3.11"
# dependencies = ["torch", "numpy", "matplotlib"]
# ///
"""Tests, figures, and the grader of the drill.

    python test_grpo.py                  test from_scratch.py, then draw both figures
    python test_grpo.py --blank mine.py  write the exercise: from_scratch.py without its bodies
    python test_grpo.py mine.py          grade it (and draw its curves)

`pytest test_grpo.py` runs the same tests. They ask what a function returns, never how: another
stream of random numbers, loops instead of tensors are as good.
"""

import argparse
import ast
import contextlib
import doctest
import functools
import importlib.util
import io
import math
import os
import re
import signal
import sys
import traceback
import unittest
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from unittest import mock

import numpy as np
import torch
from torch import tensor
from torch.autograd import grad, gradcheck
from torch.distributions import Categorical, kl_divergence
from torch.optim.sgd import sgd

ORIGINAL = Path(__file__).resolve().parent / "from_scratch.py"
README = ORIGINAL.with_name("README.md")
GOLD = tensor([a + b for a in range(6) for b in range(6)])
REFUSALS = (ValueError, TypeError, RuntimeError, AttributeError)
torch.set_num_threads(1)  # tensors this small are faster on one


def alarm(seconds):
    """TimeoutError after so many seconds, then each second (not on Windows); 0: never."""

    def ring(*_):
        Case.seconds = 5  # one endless function should not take all day
        raise TimeoutError(f"longer than {seconds} s: an endless loop?")

    if hasattr(signal, "setitimer"):
        signal.signal(signal.SIGALRM, ring)
        signal.setitimer(signal.ITIMER_REAL, seconds, 1)


def load(path):
    """Import the file at `path`, silently; ImportError, in one line, for whatever it raises."""
    spec = importlib.util.spec_from_loader(path.name, loader=None)  # shadows no module: "mine.py"
    module = sys.modules[path.name] = importlib.util.module_from_spec(spec)  # for dataclasses
    alarm(20)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(path.read_bytes(), path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        raise ImportError(f"{path}: {explain(error, path)}") from error
    alarm(0)
    return module


def explain(error, path):
    """One line: where in the file at `path` the error arose, and what it is."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    place = f"line {frames[-1].lineno}, in {frames[-1].name}: " if frames else ""
    if isinstance(error, NotImplementedError):
        return f"{place}not written yet"
    text = str(error).strip().split("\n")[0]
    return text if isinstance(error, AssertionError) else f"{place}{type(error).__name__}: {text}"


class Case(unittest.TestCase):
    """A silent test with a time limit, whose failure names the likely mistake in one line."""

    longMessage = own = False
    seconds = 30

    def setUp(self):
        self.enterContext(contextlib.redirect_stdout(io.StringIO()))
        alarm(self.seconds)
        self.addCleanup(alarm, 0)

    def close(self, got, want, hint, mistakes=None, tol=1e-6):
        """Fail where `got` is not `want`: name the mistake whose value it is, or give `hint`."""

        def near(x):
            return bool(((got - double(x)).abs() <= tol * (1 + double(x).abs())).all())

        got, want = double(got), double(want)
        shapes = f"shape {list(got.shape)}, expected {list(want.shape)}"
        self.assertEqual(got.shape, want.shape, f"{hint} ({shapes})")
        if not near(want):
            named = [name for name, wrong in (mistakes or {}).items() if near(wrong)]
            times = (got * want).sum() / (want * want).sum()
            if near(times * want):
                named.append(f"{hint}: this is {times:.4g} times as much")
            at = (got - want).abs().nan_to_num(math.inf).argmax()
            got, want = got.flatten()[at], want.flatten()[at]
            self.fail(f"{[*named, hint][0]} (got {got:.6g}, expected {want:.6g})")

    def same(self, got, want, hint):
        self.assertTrue(torch.equal(got, want), hint)

    def refuses(self, hint, function, *args, **kwargs):
        """Fail where function(*args, **kwargs) is not refused; return the error's message."""
        with self.assertRaises(REFUSALS, msg=f"{hint}: raise ValueError") as caught:
            function(*args, **kwargs)
        if isinstance(caught.exception, NotImplementedError):
            raise caught.exception
        return str(caught.exception)

    def within(self, values, expected, hint):
        """Fail where the mean of `values` is not within 6 standard errors of `expected`."""
        mean, error = float(values.mean()), float(values.std()) / len(values) ** 0.5
        text = f"{hint} (got {mean:.4f}, expected {expected:.4f}, standard error {error:.4f})"
        self.assertLessEqual(abs(mean - expected), 6 * error + 1e-4, text)


def double(values):
    return torch.as_tensor(values).detach().double()


def normal(*shape, seed=0):
    return double(np.random.default_rng(seed).normal(size=shape))


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def random_table(rows):
    """A policy in which no two answers are equally likely -> (policy, its probabilities)."""
    policy = grpo.AnswerPolicy(rows)
    policy.logits.data.copy_(normal(rows, 13))
    return policy, double(policy.logits).softmax(-1)


def scores(logits):
    """[..., 36, 13] -> probability of the right answer [..., 36], greedy accuracy [...]."""
    gold = GOLD.expand(logits.shape[:-1])[..., None]
    best = (logits == logits.amax(-1, keepdim=True)).double()
    greedy = (best / best.sum(-1, keepdim=True)).gather(-1, gold)[..., 0].mean(-1)
    return logits.double().softmax(-1).gather(-1, gold)[..., 0], greedy


@functools.cache
def trained(method, start=0.0, **settings):
    """Train R runs for T steps, with this right logit at the start -> table [T + 1, R, 36, 13],
    right [T + 1, R, 36] its probability, kl [R] to the uniform table, and what else is [T, R]."""
    config, run = grpo.Config(**settings), argparse.Namespace()
    policy = grpo.AnswerPolicy(36 * config.runs)
    policy.logits.data[range(36 * config.runs), GOLD.repeat(config.runs)] = start
    tables, seen = [policy.logits.detach().clone()], []
    for stats in grpo.train(policy, method, config):
        tables.append(policy.logits.detach().clone())
        seen.append(stats)
    run.table = torch.stack(tables).view(len(tables), -1, 36, 13)
    run.right, greedy = scores(run.table)
    run.sampled, run.greedy = run.right[1:].mean(-1), greedy[1:]
    run.hit_rate, run.skipped, run.clip_fraction = map(torch.stack, zip(*seen, strict=True))
    run.predicted_skips = (run.right[:-1] ** 8 + (1 - run.right[:-1]) ** 8).mean(-1)  # [T, R]
    run.all_wrong = (run.skipped & (run.hit_rate == 0)).double()
    run.all_right = run.skipped.double() - run.all_wrong
    run.kl = math.log(13) - Categorical(logits=run.table[-1]).entropy().mean(-1)
    return run


def output(flags=""):
    """Run main on these flags -> (exit status, stdout, stderr)."""
    out, err = io.StringIO(), io.StringIO()
    out.fileno = functools.partial(os.open, os.devnull, os.O_WRONLY)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            code = grpo.main(flags.split())
        except SystemExit as stop:
            code = stop.code
    return code, out.getvalue(), err.getvalue()


def progress(text):
    """The rows of an output, a row every tenth of the steps: step, then six figures."""
    return [[float(x) for x in row.split()] for row in re.findall(r"^ +\d+ +0\..*$", text, re.M)]


FIELDS = (  # of Config: name, default, what is accepted, what is refused
    ("steps", 120, (1, 10**9), (0, -1, 10**9 + 1)),
    ("runs", 64, (1, 10**6), (0, 10**6 + 1)),
    ("group", 8, (2, 10**6), (1, 10**6 + 1)),
    ("lr", 4.0, (1e-9, 1e6), (0.0, -1.0, 1e6 + 0.5, 1e39, math.nan, math.inf)),
    ("epochs", 1, (1, 10**6), (0, 10**6 + 1)),
    ("clip_eps", 0.2, (0, 1), (-0.1, 1.5, math.nan)),
    ("clip_eps_high", None, (None, 0, 1e9), (-0.1, 1e9 + 0.5, math.nan)),
    ("kl_beta", 0.02, (0, 1e6), (-1e-9, 1e6 + 0.5, math.inf)),
    ("std_norm", True, (True, False), (2, -1)),
    ("reward_shift", 0.0, (-1e9, 1e9), (-1e9 - 0.5, 1e9 + 0.5, math.nan)),
    ("seed", 42, (0, 10**18), (-1, 10**18 + 1)),
)


def surrogate_by_cases(new, old, a, eps=0.2, high=None):
    """-> (clipped surrogate, where the clip removes the gradient). Outside 1 - eps .. 1 + high the
    clip binds only where the policy has gone far enough already: up for A > 0, down for A < 0."""
    ratio, high = (new - old).exp(), eps if high is None else high
    bound = torch.where(a > 0, 1 + high, 1 - eps)
    removed = (a != 0) & torch.where(a > 0, ratio > bound, ratio < bound)
    return torch.where(removed, bound, ratio) * a, removed


def loss_by_hand(config, logits, ref, answers, old, a, gain=1, kl=1, count=False, mean=False):
    """-> (what grpo_loss is, share of each group whose gradient the clip removed)."""
    new, eps = logits.log_softmax(-1).gather(-1, answers), (config.clip_eps, config.clip_eps_high)
    surrogate, removed = surrogate_by_cases(new, old, a, *eps)
    penalty = kl_divergence(Categorical(logits=logits), Categorical(logits=ref)) * config.kl_beta
    signal = (a != 0).any(-1)
    loss = ((signal | count) * (kl * penalty - gain * surrogate.mean(-1))).sum()
    return loss / (signal.sum() if mean else 1), removed.double().mean(-1)


def step_by_hand(config, table, ref, answers, right, refresh=False, **wrong):
    """A row of `table` per group -> (how the rows move, clip fraction)."""
    r = (answers == right[:, None]).double() + config.reward_shift
    a, std = r - r.mean(-1, keepdim=True), r.std(-1, correction=0, keepdim=True)
    a = torch.where(std < 1e-6, 0, a / (std + 1e-8) if config.std_norm else a)
    theta, old, clipped = table.clone(), table.log_softmax(-1).gather(-1, answers), 0
    for _ in range(config.epochs):
        old = theta.log_softmax(-1).gather(-1, answers) if refresh else old
        theta.requires_grad_()
        loss, removed = loss_by_hand(config, theta, ref, answers, old, a, **wrong)
        theta = (theta - config.lr * grad(loss, theta)[0]).detach()
        clipped = clipped + removed / config.epochs
    return theta - table, clipped


MISTAKES = {  # and the argument that makes each of them by hand
    "the surrogate is maximised: loss = -surrogate": {"gain": -1},
    "the KL is a penalty: + beta * KL": {"kl": -1},
    "the KL is missing": {"kl": 0},
    "a group without a signal adds nothing, not even KL": {"count": True},
    "sum over the questions, not mean over those that count": {"mean": True},
}


class TestFunctions(Case):
    def test_config(self):
        for field, default, accepted, refused in FIELDS:
            with self.subTest(field):
                self.assertEqual(getattr(grpo.Config(), field), default, f"default of {field}")
                self.refuses("Config is frozen", setattr, grpo.Config(), field, default)
                for value in accepted:
                    self.assertEqual(getattr(grpo.Config(**{field: value}), field), value)
                for value in refused:
                    message = self.refuses(f"{field}={value}", grpo.Config, **{field: value})
                    self.assertIn(field, message, "the message names the field")

    def test_build_bank(self):
        self.assertEqual((grpo.N_A, grpo.N_B, grpo.N_Q, grpo.N_ANS), (6, 6, 36, 13))
        for got, want in zip(grpo.build_bank(), (torch.arange(36), GOLD), strict=True):
            self.same(got, want, "int64: questions 0..35; gold a + b for 6a + b, a and b in 0..5")

    def test_answer_policy_is_a_table_of_zeros(self):
        for args, shape in (((), (36, 13)), ((5, 3), (5, 3))):
            ((name, logits),) = grpo.AnswerPolicy(*args).named_parameters()
            self.assertEqual(name, "logits", "its one parameter is logits")
            self.close(logits, np.zeros(shape), "logits start at zero, one row per question")

    def test_dist_is_the_softmax_of_the_rows_asked_for(self):
        policy, p = random_table(36)
        for q_idx in (7, tensor([7, 0, 7])):
            self.assertIsInstance(policy.dist(q_idx), Categorical, "return a Categorical")
            self.close(policy.dist(q_idx).probs, p[q_idx], f"dist({q_idx}): their softmax")
        log_prob, want = policy.dist(tensor([3])).log_prob(tensor([5])), 0 * p
        want[3] = torch.eye(13)[5] - p[3]  # [j = answer] - p_j
        self.close(grad(log_prob, policy.logits)[0], want, "a gradient for row 3, and no other")

    def test_accuracy_shares_out_ties(self):
        # 35 rows are ties of 13. Row 0, right with 0: untouched, right, two kinds of tie, wrong.
        for best, score in (([], 1 / 13), ([0], 1), ([0, 4], 1 / 2), ([3, 4], 0), ([4], 0)):
            policy = grpo.AnswerPolicy()
            policy.logits.data[0, best] = 1.0
            hint, want = f"{best} lead: a k-way tie counts 1/k, no argmax", (35 / 13 + score) / 36
            self.close(grpo.accuracy(policy, GOLD), want, hint)
        self.check_shapes(grpo.accuracy, lambda table: scores(table)[1])

    def test_sampled_accuracy_is_the_mean_probability_of_the_right_answer(self):
        self.check_shapes(grpo.sampled_accuracy, lambda table: scores(table)[0].mean(-1))

    def check_shapes(self, score, by_hand):
        for policy, _ in (random_table(36), random_table(72)):
            table = policy.logits.detach().view(-1, 36, 13).squeeze(0)
            got = score(policy, GOLD.expand(table.shape[:-1]))
            self.close(got, by_hand(table), "a score for gold [36], R scores for gold [R, 36]")
        for n in (36, 108):
            self.refuses(f"72 rows and {n} right answers", score, policy, torch.zeros(n).long())

    def test_sample_answers_draws_each_on_its_own_from_the_policy(self):
        (policy, p), q_idx, n = random_table(36), tensor([4, 30, 4]), 40000
        answers, logp_old = grpo.sample_answers(policy, q_idx, n, rng())
        self.assertEqual((answers.shape, answers.dtype), ((3, n), torch.int64), "answers [B, G]")
        p = p[q_idx]
        self.close(logp_old, p.log().gather(-1, answers), "logp_old is log pi(answers) of the rows")
        self.assertFalse(logp_old.requires_grad, "logp_old must be a constant: no gradient")
        share = torch.stack([drawn.bincount(minlength=13) / n for drawn in answers])
        hint = "draw each answer anew from softmax(logits) of the row; no argmax"
        self.assertLess(float(((share - p).abs() / (p * (1 - p) / n) ** 0.5).max()), 5, hint)
        pairs, _ = grpo.sample_answers(policy, torch.full((4000,), 4), 2, rng())
        equal = (pairs[:, 0] == pairs[:, 1]).double()
        self.within(equal, float(p[0] @ p[0]), "equal with chance sum p^2: draw with replacement")
        draws = [grpo.sample_answers(policy, q_idx, 8, x)[0] for x in (*map(rng, (1, 1, 2)), None)]
        self.same(draws[0], draws[1], "draw from the generator, not from the global random state")
        self.assertFalse(torch.equal(draws[1], draws[2]), "another seed must draw other answers")

    def test_group_advantages_are_z_scores(self):
        r = np.random.default_rng(0).normal(3, 5, (4, 5, 8))
        mean, std = r.mean(-1, keepdims=True), r.std(-1, keepdims=True)
        z = (r - mean) / std
        mistakes = {
            "divide by the population std: torch's `std` needs `correction=0`": z * (7 / 8) ** 0.5,
            "divide by the std, not by the variance": z / std,
            "divide by the std where std_norm": r - mean,
            "subtract the group's mean": r / std,
            "statistics belong to each group, not to the whole batch": (r - r.mean()) / r.std(),
            "statistics run over the last dimension": (r - r.mean(0)) / r.std(0),
        }
        self.close(grpo.group_advantages(r), z, "(r - mean) / std over the group", mistakes)
        self.close(grpo.group_advantages(r, std_norm=False), r - mean, "std_norm=False: r - mean")
        # one hit in 8: mean 1/8, std sqrt(7)/8 -> (7/8) / std = sqrt(7); verl's std has ddof 1
        got = grpo.group_advantages([1, 0, 0, 0, 0, 0, 0, 0])[:2]
        self.close(got * (7 / 8) ** 0.5, [2.4748667, -0.3535524], "verl's ddof 1", tol=1e-5)
        exact, bits = [1e6, 1e6 + 0.01], tensor([1, 0, 0, 1])
        for rewards in (exact, np.array(exact), double(exact), bits, bits.bool(), bits.float()):
            got, r = grpo.group_advantages(rewards), np.asarray(rewards, float)
            self.close(got, np.sign(r - r.mean()), "float64: float32 has no 1e6 + 0.01", tol=1e-5)
            self.assertEqual(got.dtype, torch.float32, "advantages are float32")
        with contextlib.suppress(RuntimeError):  # numpy does not read such rewards
            got = grpo.group_advantages(tensor([1.0, 0.0], requires_grad=True))
            self.assertFalse(got.requires_grad, "advantages are constants: no gradient")

    def test_group_advantages_without_a_signal_are_exactly_zero(self):
        values, sizes = (0, 1, 0.1, 0.7, 1 / 3, 1e-9, -7.3, 1e5 + 0.1), (1, 2, 3, 7, 8, 64)
        for value, size, std_norm in product(values, sizes, (True, False)):
            equal = np.full((2, size), value)
            for rewards in (equal[0].tolist(), equal, equal.astype("f4"), tensor(equal) > 0):
                got = grpo.group_advantages(rewards, std_norm)
                hint = f"{size} equal rewards of {value}: no signal, exactly 0, not {got.max()}"
                self.assertTrue(bool((got == 0).all()), hint)
        nan, inf = math.nan, math.inf
        bad = ([], 1.0, np.zeros((3, 0)), [nan, 1], [inf, 0], [0, -inf], [nan], [[1, 0], [nan, 0]])
        for std_norm, unit in ((True, 1), (False, 1.1e-6)):
            got = grpo.group_advantages([[0, 1.8e-6], [0, 2.2e-6]], std_norm)
            self.close(got[0], [0, 0], "a std below 1e-6, here 9e-7, is exactly 0", tol=0)
            self.close(got[1] / unit, [-1, 1], "std 1.1e-6 is a signal, with eps 1e-8", tol=0.01)
            for x in bad:
                self.refuses(f"group_advantages({x})", grpo.group_advantages, x, std_norm)

    def test_clipped_surrogate_is_the_min_of_both_products(self):
        # ratios .5 .5 1.5 1.5 with A = 1 -1 1 -1 first: .5 -.8 1.2 -1.5, with gradient .5 0 0 -1.5
        new, old, a = normal(6, 8).requires_grad_(), 0 * normal(6, 8), normal(6, 8, seed=1)
        new.data[0, :4], a[0, :4] = double([0.5, 0.5, 1.5, 1.5]).log(), double([1, -1, 1, -1])
        r = new.detach().exp()
        for eps in ((), (0.2, 0.28), (0.4,), (0.4, 0.0)):
            low, high = ([*eps, *eps] or [0.2, 0.2])[:2]
            clip = r.clamp(1 - low, 1 + high)
            mistakes = {
                "`min`, not `max`: the surrogate is a lower bound": torch.max(r * a, clip * a),
                "take the `min` with the unclipped product": clip * a,
                "nothing is clipped": r * a,
                "the ratio is upside down": surrogate_by_cases(old, new, a, *eps)[0],
                "the bounds are swapped": surrogate_by_cases(new, old, a, high, low)[0],
                "clip_eps_high is ignored": surrogate_by_cases(new, old, a, low)[0],
                "take the `min` of the products, also for A < 0": torch.min(r, clip) * a,
                "ratio = exp(logp_new - logp_old)": torch.min(new * a, new.clamp(0.8, 1.2) * a),
            }
            want, removed = surrogate_by_cases(new, old, a, *eps)
            got = grpo.clipped_surrogate(new, old, a, *eps)
            self.close(got, want, f"min(ratio * A, clip(ratio) * A) with eps {eps}", mistakes)
            want = torch.where(removed, 0, r * a)
            self.close(grad(got.sum(), new)[0], want, "gradient: ratio * A, 0 where the clip binds")
        new, old, a = (x[0].detach().requires_grad_() for x in (new, old, a))
        surrogate = functools.partial(grpo.clipped_surrogate, logp_old=old.data, advantages=a.data)
        self.assertTrue(gradcheck(surrogate, new))
        grpo.clipped_surrogate(new, old, a).sum().backward()
        for x, name in ((old, "`logp_old`"), (a, "advantages")):
            self.close(0 * x if x.grad is None else x.grad, 0 * x, f"{name}: a constant, detach")

    def test_clipped_surrogate_neither_broadcasts_nor_overflows(self):
        for shapes in ([4, 4, (4, 1)], [4, (4, 1), 4], [4, 4, ()], [1, 4, 4]):
            self.refuses(f"shapes {shapes}", grpo.clipped_surrogate, *map(torch.zeros, shapes))
        for log_ratio, a in product((20.0, 89.0, 800.0, -800.0), (2.6, 0, -2.6)):
            new = tensor([log_ratio], requires_grad=True)
            value = grpo.clipped_surrogate(new, torch.zeros(1), tensor([a]))
            total = value.detach() + grad(value.sum(), new)[0]
            self.assertTrue(math.isfinite(total), f"log-ratio {log_ratio}, A {a}: clamp to +-20")

    def test_kl_to_reference(self):
        logits, ref = normal(2, 5, 13).requires_grad_(), normal(2, 5, 13, seed=1)
        p, q = Categorical(logits=logits), Categorical(logits=ref)
        got, named = grpo.kl_to_reference(logits + 9, ref - 5), {"reversed": kl_divergence(q, p)}
        self.close(got, kl_divergence(p, q), "torch's kl_divergence, [...], of any logits", named)
        self.assertTrue(got.requires_grad, "the KL is detached: it must carry a gradient")
        self.assertTrue(gradcheck(grpo.kl_to_reference, (logits, ref)))
        # by hand: p = softmax(2, 0, -1) = .844, .114, .042 against 1/3 each: sum p log(3p)
        for logits, want in (([2, 0, -1], 0.574346), ([1e4, 0, 0], math.log(3))):
            got = grpo.kl_to_reference(double(logits), torch.zeros(3))
            self.close(got, want, f"sum p (log p - log ref) of {logits} against uniform")

    def test_grpo_loss_is_the_sum_of_beta_kl_minus_mean_surrogate(self):
        logits, ref = normal(3, 13).requires_grad_(), normal(3, 13, seed=1)
        answers = tensor([[0, 1, 1, 2], [3, 3, 3, 3], [2, 0, 0, 1]])
        a = double([[3, -1, -1, -1], [0, 0, 0, 0], [1, 0, 0, -1]])
        same = logits.detach().log_softmax(-1).gather(-1, answers)
        bounds = {"clip_eps": 0.1, "clip_eps_high": 0.15}  # of ratios 1.82, 0.82 and 1.22
        cases = ({"kl_beta": 0.5}, same - a / 5), (bounds, same - a / 5), ({"kl_beta": 0.0}, same)
        for settings, old in cases:
            config, args = grpo.Config(**settings), (logits, ref, answers, old, a)
            loss, want = grpo.grpo_loss(*args, config), loss_by_hand(config, *args)[0]
            named = {k: loss_by_hand(config, *args, **wrong)[0] for k, wrong in MISTAKES.items()}
            self.close(loss, want, "sum_b beta * KL_b - mean_i surrogate_bi, a scalar", named)
            slope, want = grad(loss, logits)[0], grad(want, logits)[0]
            self.close(slope, want, "the gradient of the loss: is something detached?")
        self.close(loss, 0, "at ratio 1 the loss is minus the mean advantage: 0")
        loss = grpo.grpo_loss(*(x[1:2] for x in args), grpo.Config(kl_beta=0.5))
        self.assertTrue(loss.requires_grad, "no signal at all: a loss of 0 with a gradient, of 0")
        for x in (loss, grad(loss, logits)[0]):
            self.close(x, 0 * x, "no signal at all: loss and gradient are 0, without KL", tol=0)

    def test_sgd_step_is_that_of_torch(self):
        (policy, _), weights = random_table(5), normal(5, 13, seed=1).float()
        parameter, theta = policy.logits, policy.logits.detach().clone()
        off = {"weight_decay": 0.0, "momentum": 0.0, "dampening": 0.0, "nesterov": False}
        for lr in (4.0, 0.5):
            before = theta.clone()
            sgd([theta], [weights], [None], lr=lr, maximize=False, foreach=False, **off)
            grpo.sgd_step(policy, (policy.logits * weights).sum(), lr)  # the gradient: weights
            moved, hint = policy.logits.detach() - before, "-lr * gradient, in place, of this loss"
            self.close(moved, theta - before, hint, tol=1e-5)
        self.assertIs(policy.logits, parameter, "the table must stay the same Parameter")


class TestSteps(Case):
    """One step on five rows of six. Each knows two answers: its hit rate tells what was drawn."""

    ROWS, RIGHT, WRONG = tensor([5, 0, 3, 1, 2]), tensor([2, 7, 5, 11, 4]), tensor([9, 1, 0, 3, 8])

    def setUp(self):
        super().setUp()
        self.table, self.ref = torch.full((5, 13), -40.0).double(), normal(6, 13, seed=8).float()
        self.table[range(5), self.WRONG] = 0.0
        self.table[range(5), self.RIGHT] = double([1, 0.8, 1.2, 1e-18, 1e18]).log()  # its odds

    def step(self, method, **settings):
        """-> (config, how the rows moved, StepStats, answers, share of hits)"""
        policy, config = grpo.AnswerPolicy(6), grpo.Config(**{"group": 16} | settings)
        policy.logits.data[self.ROWS] = self.table.float()
        start, args = policy.logits.detach().clone(), (self.ROWS, self.RIGHT, config, rng(3))
        args = args if method == "reinforce" else (self.ref, *args)
        stats = getattr(grpo, f"{method}_step")(policy, *args)
        moved, hits = policy.logits.detach() - start, double(stats.hit_rate) * config.group
        self.assertFalse(moved[4].any(), "only the rows in q_idx may move")
        self.close(hits, hits.round(), "hit_rate: hits / config.group", tol=1e-5)
        hit = torch.arange(config.group) < hits.round()[:, None]  # [B, G]
        self.close(hit[-2:].double().mean(-1), [0, 1], "hit_rate: the share of right answers")
        answers = torch.where(hit, self.RIGHT[:, None], self.WRONG[:, None])
        return config, moved[self.ROWS], stats, answers, hit.double().mean(-1)

    def test_grpo_step(self):
        self.table[3, 0] = 0.0  # a second wrong answer: the KL would pull this row, too
        base = {"epochs": 3, "lr": 1.0, "kl_beta": 4.0, "clip_eps": 0.1, "clip_eps_high": 0.3}
        cases = ({"kl_beta": 0.0}, {"kl_beta": 0.0, "std_norm": False, "group": 3}, base)
        for settings in (*cases, base | {"std_norm": False}, base | {"reward_shift": 1e6}):
            config, moved, stats, answers, h = self.step("grpo", **settings)
            args = self.table, self.ref[self.ROWS].double(), answers, self.RIGHT
            want, clipped = step_by_hand(config, *args)
            wrongs = MISTAKES | {"`logp_old` stays: do not refresh it": {"refresh": True}}
            named = {k: step_by_hand(config, *args, **wrong)[0] for k, wrong in wrongs.items()}
            with self.subTest(**settings):
                self.close(moved, want, "each update: lr * mean_i A_i", named, tol=1e-4)
                self.same(stats.skipped, h * (1 - h) == 0, "skipped [B], a bool: no signal?")
                self.close(stats.clip_fraction, clipped, "clip_fraction: mind A's sign", tol=1e-5)
        vars(self).update({x: getattr(self, x)[3:] for x in ("ROWS", "RIGHT", "WRONG", "table")})
        moved = self.step("grpo", kl_beta=1.0)[1]
        self.close(moved, 0 * moved, "no signal at all: nothing moves, not even by the KL", tol=0)

    def test_reinforce_step(self):
        for settings in ({"epochs": 3}, {"lr": 0.5}, {"group": 3}, {"reward_shift": 1.5}):
            config, moved, stats, answers, h = self.step("reinforce", **settings)
            paid = (answers == self.RIGHT[:, None]).double() + config.reward_shift  # [B, G]
            slope = torch.eye(13)[answers] - self.table.softmax(-1)[:, None]  # [B, G, 13]
            want = config.lr * (paid[..., None] * slope).mean(1)
            with self.subTest(**settings):
                self.close(moved, want, "lr * mean_i r_i grad log pi(o_i), once", tol=1e-5)
                nothing = torch.stack([stats.skipped, stats.clip_fraction])
                self.close(nothing, 0 * nothing, "REINFORCE skips and clips nothing")


class TestTrain(Case):
    def test_it_yields_what_each_step_saw_of_every_run(self):
        policy, kept, drawn = grpo.AnswerPolicy(36 * 400), [], torch.zeros(36)
        before = policy.logits.detach().clone()
        for stats in grpo.train(policy, "reinforce", grpo.Config(steps=10)):
            self.assertEqual([x.shape for x in stats], [(400,)] * 3, "StepStats, a value per run")
            moved = (policy.logits.detach() != before).any(-1).view(400, 36)
            self.close(moved.sum(-1), stats.hit_rate > 0, "a question a run, moved by its own hits")
            drawn, before = drawn + moved.sum(0), policy.logits.detach().clone()
            kept += [(x, x.clone()) for x in stats]
        self.assertEqual(len(kept), 10 * 3, "yield the StepStats of each of config.steps steps")
        for x, copy in kept:
            self.same(x, copy, "a later step changed earlier StepStats: yield new ones")
        error = (drawn / drawn.sum() - 1 / 36).abs() / math.sqrt(35 / 36**2 / float(drawn.sum()))
        self.assertLess(float(error.max()), 5, "draw the 36 questions uniformly, each run its own")

    def test_what_it_refuses_and_the_seed(self):
        for rows, method in ((36, "ppo"), (37, "grpo"), (35, "reinforce")):
            train = functools.partial(grpo.train, grpo.AnswerPolicy(rows), method, grpo.Config())
            self.refuses(f"train by {method} on {rows} rows", lambda f=train: next(f()))
        state, run = torch.manual_seed(7).get_state(), trained.__wrapped__
        first, again, other = (run("grpo", runs=2, steps=30, seed=s).table for s in (1, 1, 2))
        self.same(again, first, "the same seed must train the same table")
        self.assertFalse(torch.equal(other, first), "config.seed is ignored")
        self.same(torch.get_rng_state(), state, "leave the global random state alone")

    def test_greedy_accuracy_and_skipped_groups_have_closed_forms(self):
        # A row is right from its first hit on: once drawn (1/36) and hit (1 - (12/13)^8).
        run = trained("grpo")
        self.close(run.greedy, trained("reinforce").greedy, "one seed: both have the same luck")
        hit = 1 - (1 - (1 - (12 / 13) ** 8) / 36) ** 120
        self.within(run.greedy[-1], hit + (1 - hit) / 13, "greedy accuracy after 120 steps")
        gap = run.skipped.double() - run.predicted_skips
        self.within(gap.mean(0), 0, "share of groups skipped = mean of p^G + (1-p)^G")

    def test_what_120_steps_reach(self):
        # Dr.GRPO's mean push is (G - 1)/G of REINFORCE's: at lr 4 * 8/7 they are level.
        cases = (
            ("sampled", 0.611, "grpo", {}, ""),
            ("sampled", 0.333, "reinforce", {}, ""),
            ("sampled", 0.290, "grpo", {"std_norm": False}, ""),
            ("sampled", 0.333, "grpo", {"std_norm": False, "lr": 4 * 8 / 7}, ""),
            ("greedy", 0.40, "reinforce", {"reward_shift": 1.0}, ""),
            ("sampled", 0.611, "grpo", {"reward_shift": 1.0}, "a z-score sees no shift"),
            ("sampled", 0.301, "grpo", {"kl_beta": 1.0}, "the reference is the frozen start"),
            ("sampled", 0.950, "grpo", {"kl_beta": 1.0, "lr": 1.0, "start": 5.0}, "no other start"),
        )
        for score, expected, method, settings, hint in cases:
            with self.subTest(score=score, method=method, **settings):
                hint = f"{score} accuracy of {method} with {settings} after 120 steps: {hint}"
                self.within(getattr(trained(method, **settings), score)[-1], expected, hint)

    def test_compare_returns_what_training_gives(self):
        settings = {"runs": 5, "steps": 60, "group": 3, "lr": 9.0, "epochs": 2, "std_norm": False}
        a, b = (trained(method, **settings) for method in ("grpo", "reinforce"))
        gap, clip = a.sampled - b.sampled, a.clip_fraction.sum(0) / (~a.skipped).sum(0)
        want = [a.sampled[-1], a.greedy[-1], b.sampled[-1], b.greedy[-1], gap[-1]]
        want += [a.all_wrong.mean(0), a.all_right.mean(0), a.kl, b.kl, clip]
        got = grpo.compare(grpo.Config(**settings))
        for label, values in zip(got, want, strict=True):
            self.close(got[label], values, f"{label}, a value per run", tol=1e-5)

    def test_flags(self):
        self.assertEqual(output("--no-std-norm --runs 2 --steps 2")[::2], (0, ""))
        cases = {"--group 1": "2 to 1e+06, not 1", "--lr nan": "lr must be", "--step 5": "--step 5"}
        for flags, about in cases.items():
            code, out, err = output(flags)
            self.assertEqual((code, out, err.count("\n")), (2, "", 2), f"{flags}: usage and error")
            self.assertIn(about, err, f"{flags}: a line that says what is wrong")


def figures(flags):
    """What `python from_scratch.py FLAGS` measures: {label: figure}."""
    with contextlib.redirect_stdout(io.StringIO()):
        final = grpo.compare(grpo.parse_config(flags.split()))
    return {label: float(values.mean()) for label, values in final.items()}


@functools.cache
def measuring():
    """Start each command of the README's tables -> [(flags, {label: figure}, figures to come)]."""
    pool, table = ProcessPoolExecutor(), r"\| 命令 / Command \|(.*)\|\n.*\n((?:\| `python .*\n)+)"
    rows = []
    for heads, body in re.findall(table, README.read_text(encoding="utf-8")):
        for flags, cells in re.findall(r"`python from_scratch.py ?(.*?)` \|(.*)\|", body):
            named = zip(heads.split("|"), cells.split("|"), strict=True)
            row = {label.strip(): float(figure) for label, figure in named}
            rows.append((flags, row, pool.submit(figures, flags)))
    return rows


class TestOwnFile(Case):
    """What only from_scratch.py must satisfy: bits, output, README. Not asked of another file."""

    own, seconds = True, 300

    def test_pairs_are_equal_to_the_last_bit(self):
        plain, reinforce = trained("grpo"), trained("reinforce")
        self.same(plain.greedy, reinforce.greedy, "one luck, one greedy curve")
        for settings in ({"reward_shift": 1.0}, {"clip_eps": 0.0}):
            self.same(plain.table, trained("grpo", **settings).table, f"{settings}: no bit changes")

    def test_dynamic_sampling_is_the_plain_run_without_its_skipped_steps(self):
        config, policy, redrawn = grpo.Config(steps=200), grpo.AnswerPolicy(), grpo.AnswerPolicy()
        counted = sum(not stats.skipped.all() for stats in grpo.train(policy, "grpo", config))
        generator, ref = rng(config.seed), redrawn.logits.detach().clone()
        for _ in range(counted):
            while True:  # draw a question and a group until the group has a signal, as DAPO does
                q, state = torch.randint(36, (1,), generator=generator), generator.get_state()
                answers, _ = grpo.sample_answers(redrawn, q, 8, generator)
                if 0 < int((answers == GOLD[q]).sum()) < 8:
                    break
            generator.set_state(state)
            grpo.grpo_step(redrawn, ref, q, GOLD[q], config, generator)
        self.same(redrawn.logits, policy.logits, "redrawing ends in the same table, to the bit")

    def test_help_and_interruptions(self):
        text = output("--runs 1 --steps 3")[1]
        self.assertEqual((len(progress(text)), text.count("+/-")), (3, 0), "one run: no error bar")
        self.assertEqual(output("--help")[1].count("GRPO only"), 5, "which flags touch GRPO alone")
        for error, want in ((KeyboardInterrupt, (130, "stopped\n")), (BrokenPipeError, (1, ""))):
            with mock.patch.object(grpo, "train", side_effect=error):
                self.assertEqual(output("--steps 1")[::2], want)

    def test_the_exercise_keeps_all_but_the_bodies(self):
        source = ORIGINAL.read_text(encoding="utf-8")
        for part, count in (("raise NotImplementedError", 14), ("def ", 22), ('"""', 48)):
            self.assertEqual(blank(source).count(part), count, part)

    def test_every_measured_row(self):
        for flags, row, future in measuring():
            for label, figure in row.items():
                got, hint = future.result()[label], f"README.md: `{flags}`, {label} {figure}"
                self.assertLessEqual(abs(got - figure), 0.02, f"{hint}: measured {got:.3f}")
        self.assertGreater(len(measuring()), 15)

    def test_every_doctest(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            done = doctest.testfile(str(README), module_relative=False, encoding="utf-8")
        self.assertEqual(done.failed, 0, " ".join(out.getvalue().replace("*", "").split())[:400])
        self.assertGreater(done.attempted, 30)

    def test_output_charts_and_flag_table(self):
        text, readme = output()[1], README.read_text(encoding="utf-8")
        shown, number = readme.split("<!-- output -->\n```\n")[1].split("```")[0], r"-?\d+\.\d+"
        self.assertEqual(re.sub(number, "#", shown), re.sub(number, "#", text), "README.md: output")
        got, want = ([float(x) for x in re.findall(number, x)] for x in (shown, text))
        self.close(got, want, "README.md: a number of the output", tol=0.01)
        names = "step", "GRPO sampled", "greedy, both", "REINFORCE sampled", "", "all-wrong"
        columns = dict(zip((*names, "all-right"), zip(*progress(text), strict=True), strict=True))
        drawn = re.findall(r' +(?:x-axis|line) "(.+)" \[(.+)\]', readme)
        for name, y in drawn:
            self.close([float(x) for x in y.split(",")], columns[name], f"chart: {name}", tol=0.01)
        self.assertEqual(len(drawn), 7, "two charts, with five lines and two axes")
        want = [("--" + field.replace("_", "-"), str(default)) for field, default, *_ in FIELDS]
        self.assertEqual(re.findall(r"\| `(--.*?)` \| (.*?) \|", readme), want, "README.md: flags")


def draw(path, rows, panels):
    """Draw panels (title, x label, y label, curves (label, style, x, y or the band y, y))."""
    os.environ["MPLBACKEND"] = "Agg"  # needs no window
    import matplotlib.pyplot as plt

    size = (5 * len(panels) / rows + 1, 4 * rows + 0.2)
    figure, places = plt.subplots(rows, len(panels) // rows, figsize=size, layout="constrained")
    for axes, (title, x_label, y_label, curves) in zip(places.flat, panels, strict=True):
        for label, style, x, y in curves:
            if np.ndim(y) == 2:
                axes.fill_between(x, *y, color=style, alpha=0.3, lw=0, label=label)
            else:
                axes.plot(x, y, style, label=label)
        axes.set(title=title, xlabel=x_label, ylabel=y_label, ylim=(0, 1.25 * axes.get_ylim()[1]))
        axes.grid(alpha=0.25)
        axes.legend(fontsize=8, framealpha=0.9)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print("wrote", path)


def training_panels():
    """Figure 1: accuracy, and the groups without a signal, over the steps."""
    a, b, x = trained("grpo"), trained("reinforce"), np.arange(1, 121)
    band, hit = (0.1, 0.9), 1 - (1 - (1 - (12 / 13) ** 8) / 36) ** x
    curves = [
        ("GRPO, sampled (band: 80% of runs)", "C0", x, a.sampled.mean(1)),
        (None, "C0", x, np.quantile(a.sampled, band, axis=1)),
        ("REINFORCE, sampled (band: 80% of runs)", "C1", x, b.sampled.mean(1)),
        (None, "C1", x, np.quantile(b.sampled, band, axis=1)),
        ("greedy, both methods alike", "k--", x, a.greedy.mean(1)),
        ("greedy, closed form", "C7:", x, hit + (1 - hit) / 13),
    ]
    yield "Sampled accuracy tells the methods apart, greedy cannot", "step", "accuracy", curves
    shares = [x.mean(1) for x in (a.all_wrong, a.all_right, a.predicted_skips)]
    wrong, right, predicted = (np.convolve(x, np.full(10, 0.1), "valid") for x in shares)
    x = x[9:] - 4.5  # the middle of ten steps
    curves = [
        ("all wrong (mean of ten steps)", "C7", x, (0 * wrong, wrong)),
        ("all right", "C0", x, (wrong, wrong + right)),
        ("prediction $p^G + (1-p)^G$", "k", x, predicted),
    ]
    yield "A group that agrees with itself teaches nothing", "step", "groups skipped", curves


def follow_up_panels():
    """Figure 2: what the follow-up questions of the README ask, measured."""

    def rows(x, flags, label, style):  # what these commands measure
        found = {flags: future.result() for flags, _, future in measuring()}
        return (label, style, x, [found[f][label] for f in flags])

    steps, paid = range(1, 121), {"reward_shift": 1.0}
    curves = [
        ("both methods, paid 0 or 1", "C7", steps, trained("grpo").greedy.mean(1)),
        ("GRPO, paid 1 or 2", "C0--", steps, trained("grpo", **paid).greedy.mean(1)),
        ("REINFORCE, paid 1 or 2", "C1", steps, trained("reinforce", **paid).greedy.mean(1)),
    ]
    yield "Pay 1 and 2: GRPO does not notice", "step", "greedy accuracy", curves
    bounds = ("", " --clip-eps-high 0.28", " --clip-eps-high 1e9")
    flags = ["--epochs 8 --lr 0.5" + bound for bound in (*bounds, f" --clip-eps 0.999{bounds[2]}")]
    x, label = ("both 0.2", "upper 0.28", "upper open", "both open"), "GRPO clip fraction"
    curves = [rows(x, flags, "GRPO sampled", "C0o-"), rows(x, flags, label, "C1s--")]
    yield "With 8 epochs the clip slows learning", "bounds of the clip", "after 120 steps", curves
    x, flags = ("0", "0.02", "0.5", "1"), ("--kl-beta 0", "", "--kl-beta 0.5", "--kl-beta 1")
    curves = [rows(x, flags, "GRPO sampled", "C0o-"), rows(x, flags, "GRPO KL", "C1s--")]
    yield "KL weight: nothing at 0.02, a leash at 1", "beta", "accuracy; KL in nats", curves
    x, samples = ("2", "8", "64"), ("--group 2 --steps 480", "", "--group 64 --steps 15")
    updates = rows(x, ("--group 2", "", "--group 64"), "GRPO sampled", "C0o-")
    samples = rows(x, samples, "GRPO sampled", "C1s--")
    curves = [("equal updates (120)", *updates[1:]), ("equal samples (960)", *samples[1:])]
    yield "Larger groups: better updates, fewer of them", "group size G", "GRPO sampled", curves
    p, marks = np.linspace(0.001, 0.999, 200), (0.05, 0.2, 0.5, 0.8, 0.95)
    hits = [(math.comb(8, k) * p**k * (1 - p) ** (8 - k), k / 8) for k in range(9)]
    curves = [
        ("GRPO, G = 8, enumerated", "C0", p, sum(c * math.sqrt(h * (1 - h)) for c, h in hits)),
        ("GRPO, measured", "C0o", marks, [push("grpo", x) for x in marks]),
        ("its limit $\\sqrt{p(1-p)}$", "C0:", p, np.sqrt(p * (1 - p))),
        ("REINFORCE, $p(1-p)$", "C1", p, p * (1 - p)),
        ("REINFORCE, measured", "C1s", marks, [push("reinforce", x) for x in marks]),
    ]
    title = "Dividing by the std amplifies rare hits"
    yield title, "success probability p", "mean push of the right logit, lr 1", curves
    run, updates = trained("grpo", steps=320), torch.arange(1, 121)
    at = torch.stack([((~run.skipped).cumsum(0) < n).sum(0) for n in updates])  # n-th signal's step
    counted = run.sampled.gather(0, at).mean(1)
    curves = [
        ("Dynamic Sampling, against updates", "C0", updates, counted),
        ("Dynamic Sampling, against groups drawn", "C1", (at + 1).double().mean(1), counted),
        ("plain, against steps", "k:", updates, run.sampled[:120].mean(1)),
    ]
    yield "Dynamic Sampling saves updates, not samples", "updates or groups", "sampled", curves


def push(method, p, rows=20000):
    """The mean move of the right logit in one step at lr 1, where the policy knows it with p."""
    policy, q_idx = grpo.AnswerPolicy(rows), torch.arange(rows)
    policy.logits.data[:, 0] = before = math.log(12 * p / (1 - p))
    args = (q_idx, torch.zeros_like(q_idx), grpo.Config(lr=1.0, kl_beta=0.0), rng())
    args = args if method == "reinforce" else (policy.logits.detach().clone(), *args)
    getattr(grpo, f"{method}_step")(policy, *args)
    return policy.logits.data[:, 0].double().mean() - before


class Report(unittest.TestResult):
    """Says in two lines what failed, as soon as it does; a test ends at its first failing case."""

    failed, out = 0, sys.stdout  # a test has its own redirected

    def addSuccess(self, test):
        if self.verbose:
            print("ok  ", test._testMethodName, file=self.out)

    def addFailure(self, test, error):
        self.failed += 1
        print(f"FAIL {test._testMethodName}\n     {explain(error[1], self.path)}", file=self.out)
        if self.verbose:
            traceback.print_exception(*error, file=self.out)

    addError = addFailure

    def addSubTest(self, test, _, error):
        if error:
            self.addFailure(test, error)


def blank(source):
    """The exercise: from_scratch.py with every body from build_bank to train taken out."""
    lines, functions = source.splitlines(), []
    for node in ast.parse(source).body:
        functions += [f for f in ast.walk(node) if isinstance(f, ast.FunctionDef)]
    names = [f.name for f in functions]
    for f in reversed(functions[names.index("build_bank") : names.index("train") + 1]):
        if f.name not in ("log_probs", "clip_removed"):  # helpers: given
            start = f.body[0].end_lineno if ast.get_docstring(f) else f.body[0].lineno - 1
            lines[start : f.end_lineno] = [" " * (f.col_offset + 4) + "raise NotImplementedError"]
    return "\n".join(lines) + "\n"


def grade(args, own):
    """Run the tests whose name contains the pattern on the file that is loaded, then draw."""
    if own and not args.k:
        measuring()  # beside the tests
    loader, report = unittest.TestLoader(), Report()
    report.path, report.verbose, report.failfast = args.file, args.v, True
    loader.testNamePatterns = [f"*{args.k}*"]
    for case in Case.__subclasses__():
        if own or not case.own:
            loader.loadTestsFromTestCase(case).run(report)
    if not (args.no_plots or args.k or report.failed):
        draw(args.out / "grpo_vs_reinforce.png", 1, list(training_panels()))
        if own:
            draw(args.out / "follow_ups.png", 2, list(follow_up_panels()))
    print(f"{report.testsRun - report.failed} passed, {report.failed} failed", flush=True)
    return 1 if report.failed else 0


def main(argv=None):
    global grpo
    how = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=how, allow_abbrev=False)
    add = parser.add_argument
    add("file", nargs="?", type=Path, default=ORIGINAL, help="what to test (from_scratch.py)")
    add("--blank", type=Path, metavar="FILE", help="write the exercise; never over another file")
    add("--no-plots", action="store_true", help="test only")
    add("--out", type=Path, default=Path(), metavar="DIR", help="where the figures go (here)")
    add("-k", default="", metavar="PATTERN", help="only tests with PATTERN in the name; no plots")
    add("-v", action="store_true", help="name every test, show tracebacks")
    args = parser.parse_args(argv)
    try:
        if args.blank:
            with open(args.blank, "x", encoding="utf-8") as file:
                file.write(blank(ORIGINAL.read_text(encoding="utf-8")))
            print(f"wrote {args.blank}; fill it in from the top; python test_grpo.py {args.blank}")
            return 0
        args.out.mkdir(parents=True, exist_ok=True)
        grpo = load(args.file)
        return grade(args, own=args.file.resolve() == ORIGINAL)
    except (ImportError, OSError) as error:
        print(f"test_grpo.py: {error}", file=sys.stderr)
        return 2


grpo = None if __name__ == "__main__" else load(ORIGINAL)  # main() loads what it is told to
if __name__ == "__main__":
    sys.exit(main())
