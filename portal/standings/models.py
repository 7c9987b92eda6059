"""What one system has achieved in one environment, kept up to date by the verdict's own transaction."""

from __future__ import annotations

from django.db import models

from portal.catalog.models import Environment
from portal.systems.models import System


class Standing(models.Model):
    """Figures over the public runs that this installation judged. Infrastructure faults are not runs."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="standings")
    system = models.ForeignKey(System, on_delete=models.CASCADE, related_name="standings")
    runs = models.PositiveIntegerField(default=0)
    passed = models.PositiveIntegerField(default=0)
    accepted = models.PositiveIntegerField(default=0, help_text="Gates 0 to 3 passed; not timed, or no target yet.")
    below_target = models.PositiveIntegerField(default=0)
    rejected = models.PositiveIntegerField(default=0)
    rejected_fast = models.PositiveIntegerField(default=0, help_text="Rejected although measured at or above target.")
    tasks = models.PositiveIntegerField(default=0, help_text="Tasks with at least one run.")
    tasks_covered = models.PositiveIntegerField(default=0, help_text="Tasks with a run that passed gates 0 to 3.")
    tasks_passed_once = models.PositiveIntegerField(default=0)
    tasks_passed_twice = models.PositiveIntegerField(default=0)
    geometric_mean_speedup = models.FloatField(null=True, help_text="Over covered tasks with a counted speedup.")
    failure_modes = models.JSONField(default=dict, help_text="Failure mode to number of runs.")
    refreshed_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["environment", "-passed", "-accepted", "system__name"]
        constraints = [models.UniqueConstraint(fields=["environment", "system"], name="standing_once_per_system")]

    def __str__(self) -> str:
        return f"{self.system_id} in {self.environment_id}"
