"""One file per revision, oldest first. A released file is never changed."""
