"""Signing in to clouds: Azure, AWS and Google. Each is an optional extra, imported when it is first used."""
