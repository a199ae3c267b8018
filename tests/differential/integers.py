"""Compares compiled integer expressions with NumPy: random expressions over loaded numbers, with the ends of their types among these.

usage: integers.py [--cases N] [--seed N]

Data wraps in two's complement, a quotient or remainder by 0 is 0, and the smallest number by -1 wraps; bits that are shifted out are gone. An expression is named by the seed and its number; `--seed S --cases N`
makes the same ones again. Ends with status 1 if one differs.
"""

import argparse
import functools
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples/python-compiler/python"))

import numpy as np  # noqa: E402
from case import INTEGERS, Draw  # noqa: E402
from compiler import PassContext, binary, build, ir, pipeline, schedule, te  # noqa: E402

#: The number of expressions of one kernel, and of elements in each of its tensors: some loops have
#: a remainder.
BATCH, LENGTH = 25, 75
#: From this number of kernels on, each processor runs a process.
MANY = 400


def truncated(a, b):
    """The quotient, rounded to zero."""
    quotient, rest = np.floor_divide(a, b), np.remainder(a, b)
    return np.where((rest != 0) & ((a < 0) != (b < 0)), quotient + np.ones_like(quotient), quotient)


#: Operations of two numbers of one type, by the names of the compiler.
ARITHMETIC = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Div": truncated,
    "Mod": np.fmod,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.remainder,
    "Min": np.minimum,
    "Max": np.maximum,
    "BitAnd": np.bitwise_and,
    "BitOr": np.bitwise_or,
    "BitXor": np.bitwise_xor,
    "ShiftLeft": np.left_shift,
    "ShiftRight": np.right_shift,
}
COMPARISONS = {"Eq": np.equal, "Ne": np.not_equal, "Lt": np.less, "Le": np.less_equal, "Gt": np.greater, "Ge": np.greater_equal}
LOGIC = {"And": np.logical_and, "Or": np.logical_or}


def numbers(draw, dtype, count=LENGTH):
    """Numbers of a type: its ends, powers of two and their neighbours, small ones, any bits."""
    info, bits = np.iinfo(dtype), np.iinfo(dtype).bits
    special = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 7]
    special += [(1 << draw.number(1, bits - 2)) + draw.number(-1, 1) for _ in range(8)]
    if info.min < 0:
        special += [-1, -2, -3, -(1 << draw.number(1, bits - 2))]
    some = draw.numpy.choice(np.array(special, dtype=dtype), count)
    any_bits = np.frombuffer(draw.numpy.bytes(count * bits // 8), dtype=dtype)
    return np.where(draw.numpy.random(count) < 0.75, some, any_bits)


class Expressions:
    """Random expressions: the input of the compiler, and NumPy's result."""

    def __init__(self, draw, loads, values):
        self.draw, self.loads, self.values = draw, loads, values

    def integer(self, dtype, depth):
        """An expression of this type, with its value and its text."""
        draw = self.draw
        if depth == 0 or draw.chance(0.1):
            if draw.chance(0.7):
                return self.loads[dtype], self.values[dtype], f"{dtype}[i]"
            number = int(numbers(draw, dtype, 1)[0])
            # A constant above the largest int64 is passed as the same bits.
            signed = number - (1 << 64) if number >= 1 << 63 else number
            return te.cast(te.constant(signed, "int64"), dtype), np.full(LENGTH, number, dtype), str(number)
        kind = draw.one("arithmetic", "arithmetic", "arithmetic", "cast", "select", "negative")
        if kind == "arithmetic":
            name = draw.one(*ARITHMETIC)
            (a, x, s), (b, y, t) = self.integer(dtype, depth - 1), self.integer(dtype, depth - 1)
            # A constant divisor of 0 is refused.
            if ("Div" in name or "Mod" in name) and isinstance(b, ir.Int) and b.value == 0:
                b, y, t = self.loads[dtype], self.values[dtype], f"{dtype}[i]"
            return binary.__getattr__(name)(a, b), ARITHMETIC[name](x, y).astype(dtype), f"{name}({s}, {t})"
        if kind == "cast":
            a, x, s = self.integer(draw.one(*INTEGERS), depth - 1)
            return te.cast(a, dtype), x.astype(dtype), f"{dtype}({s})"
        if kind == "select":
            (c, z, u), (a, x, s), (b, y, t) = self.condition(depth - 1), self.integer(dtype, depth - 1), self.integer(dtype, depth - 1)
            return te.select(c, a, b, draw.chance()), np.where(z, x, y), f"({s} if {u} else {t})"
        a, x, s = self.integer(dtype, depth - 1)
        return binary.Sub(te.constant(0, dtype), a), np.negative(x), f"-{s}"

    def condition(self, depth):
        """A condition."""
        draw = self.draw
        if depth > 0 and draw.chance(0.25):
            name = draw.one(*LOGIC)
            (a, x, s), (b, y, t) = self.condition(depth - 1), self.condition(depth - 1)
            return binary.__getattr__(name)(a, b), LOGIC[name](x, y), f"({s} {name} {t})"
        name, dtype = draw.one(*COMPARISONS), draw.one(*INTEGERS)
        depth = max(depth, 0)
        (a, x, s), (b, y, t) = self.integer(dtype, depth), self.integer(dtype, depth)
        return binary.__getattr__(name)(a, b), COMPARISONS[name](x, y), f"({s} {name} {t})"


def check(name):
    """Compiles a kernel of some expressions and compares each; returns the number of differences."""
    draw = Draw(name)
    inputs = {dtype: te.placeholder([LENGTH], dtype, dtype) for dtype in INTEGERS}
    values = {dtype: numbers(draw, dtype) for dtype in INTEGERS}
    # Reads every input: a kernel must not have unused ones.
    total = te.compute([LENGTH], lambda i: functools.reduce(binary.Add, [te.cast(tensor[i], "int64") for tensor in inputs.values()]), "total")
    outputs, wanted = [total], [("int64", sum(array.astype("int64") for array in values.values()), "the sum of all")]
    for number in range(BATCH):
        dtype, depth, what = draw.one(*INTEGERS), draw.number(1, 4), None

        def body(i):
            nonlocal what
            expressions = Expressions(draw, {dtype: tensor[i] for dtype, tensor in inputs.items()}, values)
            what = expressions.integer(dtype, depth)
            return what[0]

        outputs.append(te.compute([LENGTH], body, f"out{number}"))
        wanted.append((dtype, *what[1:]))
    plan = schedule.create(outputs)
    for output in outputs:
        if draw.chance():
            _, inner = plan[output].split(output.op.axes[0], draw.one(4, 8, 16))
            plan[output].vectorize(inner)
    kernel = build(pipeline.lower(plan, [*inputs.values(), *outputs], "kernel", PassContext()), "llvm")
    got = [np.zeros(LENGTH, dtype) for dtype, _, _ in wanted]
    kernel.kernel(*(values[dtype] for dtype in INTEGERS), *got)
    wrong = 0
    for number, ((dtype, want, text), have) in enumerate(zip(wanted, got)):
        places = np.flatnonzero(want != have)
        if places.size:
            wrong += 1
            place = places[0]
            data = {dtype: int(values[dtype][place]) for dtype in INTEGERS if dtype in text}
            print(f"{name}, expression {number}, place {place}: {have[place]}, NumPy has {want[place]}: {text} of {data}", flush=True)
    return wrong


def check_the_judge():
    """Ends the program if NumPy's rules differ from those in the compiler's documentation."""
    small, one = np.array([-128, -128, -7, 7, 5], "int8"), np.array([-1, 0, 2, -2, 9], "int8")
    table = {
        "Div": [-128, 0, -3, -3, 0],
        "Mod": [0, 0, -1, 1, 5],
        "FloorDiv": [-128, 0, -4, -4, 0],
        "FloorMod": [0, 0, 1, -1, 5],
        "ShiftLeft": [0, -128, -28, 0, 0],
        "ShiftRight": [-1, -128, -2, 0, 0],
        "Sub": [-127, -128, -9, 9, -4],
    }
    for name, wanted in table.items():
        got = ARITHMETIC[name](small, one)
        if got.dtype != "int8" or got.tolist() != wanted:
            sys.exit(f"{name} of NumPy is another one: {got} for {small} and {one}, expected {wanted}")


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    quiet = functools.partial(np.seterr, all="ignore")
    quiet()
    check_the_judge()
    kernels = -(-arguments.cases // BATCH)
    names = [f"integers/{arguments.seed}/{number}" for number in range(kernels)]
    if kernels < MANY:
        wrong = sum(map(check, names))
    else:
        # Not by fork: the compiler may have threads. A process that crashes ends the run with an
        # error.
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(mp_context=spawn, initializer=quiet) as processes:
            wrong = sum(processes.map(check, names, chunksize=20))
    print(f"{kernels * BATCH} integer expressions beside NumPy: {wrong} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
