"""Publishing: from files on a publisher's disk to what the daemon is asked to import.

Nothing is sent from here, and nothing is written.
"""

from sealcar.publish.payloads import PlannedPayload
from sealcar.publish.plan import ImportPlan, plan
from sealcar.publish.sealed import sealed_plan

__all__ = ["ImportPlan", "PlannedPayload", "plan", "sealed_plan"]
