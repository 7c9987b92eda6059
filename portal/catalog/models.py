"""Tasks and environments as the portal shows them. The folders under tasks/ are the source; `load_tasks` copies them."""

from __future__ import annotations

from django.db import models

from portal.catalog.querysets import EnvironmentQuerySet, TaskQuerySet


class Environment(models.Model):
    """One kind of GPU with pinned software. Verdicts and targets belong to one."""

    slug = models.SlugField(max_length=60, primary_key=True)
    title = models.CharField(max_length=120)
    description = models.TextField()
    official = models.BooleanField(default=False)
    timed = models.BooleanField(help_text="False when speed cannot be measured here.")
    dims = models.CharField(max_length=5, choices=[("timed", "Timed"), ("small", "Small")])
    clock_policy = models.CharField(max_length=200)
    device = models.JSONField()
    versions = models.JSONField()

    objects = EnvironmentQuerySet.as_manager()

    class Meta:
        ordering = ["-official", "slug"]

    def __str__(self) -> str:
        return self.title


class Task(models.Model):
    """One PyTorch workload to optimise, with only what everybody may see."""

    class Level(models.TextChoices):
        L1 = "L1", "Single operator"
        L2 = "L2", "Fused epilogue"
        L3 = "L3", "Complete model"
        L4 = "L4", "Large transformer or MoE"

    id = models.CharField(max_length=5, primary_key=True)
    slug = models.SlugField(max_length=60, unique=True)
    level = models.CharField(max_length=2, choices=Level.choices)
    family = models.SlugField(max_length=60)
    title = models.CharField(max_length=120)
    dtype = models.CharField(max_length=4)
    timing_mode = models.CharField(max_length=4)
    spotlight = models.BooleanField(default=False)
    active = models.BooleanField(default=True, help_text="False when the task is no longer on disk.")
    competency = models.TextField()
    summary = models.TextField()
    instruction = models.TextField(help_text="Markdown.")
    reference_source = models.TextField()
    dims = models.JSONField()
    inputs = models.JSONField()
    parameters = models.JSONField()
    outputs = models.JSONField()
    distributions = models.JSONField(help_text="Visible ones only.")
    hidden_distributions = models.PositiveSmallIntegerField(help_text="How many there are beside the visible ones.")
    tolerance = models.JSONField()
    floor = models.JSONField()
    structure = models.JSONField()
    digest = models.CharField(max_length=64, help_text="SHA-256 over every file that defines the task.")

    objects = TaskQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return f"{self.id} {self.title}"


class Release(models.Model):
    """The suite as it once was: which tasks, each by its digest. The same tasks are the same release everywhere."""

    slug = models.SlugField(
        max_length=12, primary_key=True, help_text="The first digits of a SHA-256 over its tasks and their digests."
    )
    loaded_at = models.DateTimeField(help_text="When it last became the suite of this installation.")

    class Meta:
        ordering = ["-loaded_at", "slug"]

    def __str__(self) -> str:
        return f"{self.loaded_at:%Y-%m-%d} {self.slug}"


class ReleasedTask(models.Model):
    """A task of a release, as it was then."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="tasks")
    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="+")
    digest = models.CharField(max_length=64, help_text="The task's digest in this release.")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["release", "task"], name="released_task_once")]

    def __str__(self) -> str:
        return f"{self.task_id} in {self.release_id}"


class Certificate(models.Model):
    """What was measured for one task in one environment: a target, or why there is none."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="certificates")
    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="certificates")
    target = models.FloatField(
        null=True, help_text="Speedup over the faster baseline that passes. None where the task is not certified."
    )
    body = models.JSONField(help_text="The whole certificate.")
    digest = models.CharField(max_length=64, help_text="SHA-256 of the certificate file.")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["task", "environment"], name="certificate_once_per_environment"),
            models.CheckConstraint(condition=models.Q(target__gt=0), name="certificate_target_positive"),
        ]

    def __str__(self) -> str:
        target = "not certified" if self.target is None else f"{self.target:.2f}x"
        return f"{self.task_id} in {self.environment_id}: {target}"

    @property
    def floor_speedup(self) -> float | None:
        """The speedup over the faster baseline that the floor allows, or None where there is no floor."""
        floor, sessions = self.body.get("floor_ms"), self.body.get("sessions")
        if not floor or not sessions:
            return None
        baselines = (sessions[-1].get("eager_ms"), sessions[-1].get("compiled_ms"))
        return min(time for time in baselines if time) / floor if any(baselines) else None
