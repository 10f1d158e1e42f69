"""Where the calls of a run are carried out: on this machine, or elsewhere."""

from anchorwalk.run.runners.base import Job, Layout, Mapper, Result, Runner, Session
from anchorwalk.run.runners.devices import Devices
from anchorwalk.run.runners.layout import choose
from anchorwalk.run.runners.local import Local
from anchorwalk.run.runners.ray import Ray

__all__ = ["Devices", "Job", "Layout", "Local", "Mapper", "Ray", "Result", "Runner", "Session", "choose"]
