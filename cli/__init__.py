"""Start and end of every program: flags, checks, signals, errors."""
