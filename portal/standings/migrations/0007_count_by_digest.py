from django.db import migrations
from django.db.models import Avg, Count, F, Max, Q, Sum
from django.db.models.functions import Ln

KEY = ("environment_id", "system_id", "task_id", "task_digest")


def count_by_digest(apps, _schema_editor):
    """Write all rows again: those of before did not tell the versions of a task apart."""
    model = apps.get_model("standings", "TaskStanding")
    model.objects.all().delete()
    runs = apps.get_model("runs", "Run").objects.filter(visibility="public", verdict__isnull=False).order_by()
    rejected, sped = Q(verdict__outcome="rejected"), Q(verdict__speedup__gt=0)
    counted = runs.values(*KEY).annotate(
        runs=Count("id"),
        targeted=Count("verdict__target"),
        passed=Count("id", filter=Q(verdict__outcome="passed")),
        cleared=Count("id", filter=~rejected),
        below_target=Count("id", filter=Q(verdict__outcome="below_target")),
        rejected=Count("id", filter=rejected),
        rejected_fast=Count("id", filter=rejected & Q(verdict__measured_speedup__gte=F("verdict__target"))),
        captured=Sum("verdict__capture", default=0.0),
        speedups=Count("id", filter=sped),
        mean_log_speedup=Avg(Ln("verdict__speedup"), filter=sped),
        clocked=Count("wall_clock_seconds"),
        latest=Max("verdict__created_at"),
        clock=Sum("wall_clock_seconds", default=0),
    )
    failures = {}
    codes = runs.exclude(verdict__primary_failure="").values_list(*KEY, "verdict__primary_failure")
    for *key, code, count in codes.annotate(Count("id")):
        failures.setdefault(tuple(key), {})[code] = count
    model.objects.bulk_create(
        [
            # The sum has the name of a column of the runs, so that it is counted under another.
            model(**row, wall_clock_seconds=clock, failures=failures.get(tuple(row[name] for name in KEY), {}))
            for row in counted
            for clock in (row.pop("clock"),)
        ],
        batch_size=500,
    )


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0006_agents_wall_clock'),
        ('standings', '0006_rows_by_digest'),
    ]

    operations = [migrations.RunPython(count_by_digest, migrations.RunPython.noop)]
