"""The driver: runs the effects of turn machines, keeps logs and followers, owns every task of a run."""
