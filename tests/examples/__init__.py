"""Programs to read and to run, such as `python -m tests.examples.digits`: what they need besides is the extra
`[examples]`.
"""
