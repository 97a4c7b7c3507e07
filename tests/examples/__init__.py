"""Example programs to read and run. The extra `[examples]` installs what they use."""
