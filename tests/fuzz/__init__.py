"""Random differentiable programs, run by every engine we have and by PyTorch: `python -m tests.fuzz`.

- `bounded.py`: numbers that carry a bound of their rounding error. Running a program on them shows how far apart two
  correct answers may be, so a badly conditioned program raises no false alarm and excuses no wrong derivative.
- `programs.py`: what a program is, how one is generated from (seed, index), and how it looks as code.
- `engines.py`: what runs programs, and returns values and gradients.
- `compare.py`: where two engines disagree.
- `shrink.py`: the smallest program in which they disagree.
- `loops.py`: programs of another kind, for the compiler's loops: `python -m tests.fuzz.loops`.
"""
