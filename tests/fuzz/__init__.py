"""Random differentiable programs, run by every engine we have and by PyTorch: `python -m tests.fuzz`.

- `bounded.py`: numbers that carry a bound of their rounding error. A program run on them tells how far two right
  answers may lie apart, so a badly conditioned program is no false alarm and a wrong derivative is no excuse.
- `programs.py`: what a program is, how one is made from (seed, index), and how it looks as code.
- `engines.py`: what runs programs, and gives values and gradients.
- `compare.py`: where two engines disagree.
- `shrink.py`: the smallest program in which they do.
- `loops.py`: programs of another kind, for the compiler's loops: `python -m tests.fuzz.loops`.
"""
