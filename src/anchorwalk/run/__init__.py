"""From a plan to stored members: `sample`, its runners and callbacks, compiled programs, keys, and the store.

Import from the modules: `run.sample`, `run.callbacks`, `run.runners`, `run.store`. `keys` and `store` are imported
by rooms below `sample`, so this file imports nothing.
"""
