"""Start and end of every program: flags, run record, lock, sweep, dry run."""
