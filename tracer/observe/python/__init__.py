"""Python as libraries write it: cached functions, imports, contexts, loggers, identities."""
