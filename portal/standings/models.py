"""What systems have achieved in an environment, by task and as a whole, kept up to date by the verdict's own transaction."""

from __future__ import annotations

from django.db import models

from portal.catalog.models import Environment, Task
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


class TaskStanding(models.Model):
    """The same for one task as it once was, so that a board adds up rows and counts no runs.

    There is none where no run counts.
    """

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="task_standings")
    system = models.ForeignKey(System, on_delete=models.CASCADE, related_name="task_standings")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="standings")
    task_digest = models.CharField(
        max_length=64, db_default="", help_text="The task's digest when they were submitted."
    )
    runs = models.PositiveIntegerField()
    targeted = models.PositiveIntegerField(help_text="Runs judged against a target.")
    passed = models.PositiveIntegerField()
    cleared = models.PositiveIntegerField(help_text="Runs that passed gates 0 to 3.")
    below_target = models.PositiveIntegerField()
    rejected = models.PositiveIntegerField()
    rejected_fast = models.PositiveIntegerField()
    captured = models.FloatField(help_text="The sum of captures.")
    speedups = models.PositiveIntegerField(db_default=0, help_text="Runs with a counted speedup.")
    mean_log_speedup = models.FloatField(null=True, help_text="Over these.")
    clocked = models.PositiveIntegerField(
        db_default=0, help_text="Runs of which it is known how long the agent worked."
    )
    wall_clock_seconds = models.PositiveBigIntegerField(db_default=0, help_text="How long in all.")
    latest = models.DateTimeField(help_text="When the last verdict came in.")
    failures = models.JSONField(default=dict, help_text="Primary failure code to number of runs.")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["environment", "system", "task", "task_digest"], name="task_standing_once_per_digest"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.system_id} for {self.task_id} in {self.environment_id}"
