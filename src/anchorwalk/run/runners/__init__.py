"""Where the calls of a run are carried out: on this machine, or elsewhere."""

from anchorwalk.run.runners.base import Job, Layout, Result, Runner, Session
from anchorwalk.run.runners.layout import choose
from anchorwalk.run.runners.local import Local

__all__ = ["Job", "Layout", "Local", "Result", "Runner", "Session", "choose"]
