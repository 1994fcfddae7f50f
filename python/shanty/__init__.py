"""What a training script may tell the agent that supervises it.

Every call does nothing when the script runs without an agent.
"""

from __future__ import annotations

from shanty.api import phase, running, step, total

__version__ = "0.1.0"
__all__ = ["phase", "running", "step", "total"]
