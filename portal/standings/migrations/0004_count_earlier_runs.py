from django.db import migrations
from django.db.models import Avg, Count, F, Max, Q, Sum
from django.db.models.functions import Ln

KEY = ("environment_id", "system_id", "task_id")


def count_earlier_runs(apps, _schema_editor):
    """Write the rows of runs that were judged before there were rows."""
    runs = apps.get_model("runs", "Run").objects.filter(visibility="public", state="finished").order_by()
    rejected = Q(verdict__outcome="rejected")
    counted = runs.values(*KEY).annotate(
        runs=Count("verdict"),
        targeted=Count("verdict__target"),
        passed=Count("verdict", filter=Q(verdict__outcome="passed")),
        cleared=Count("verdict", filter=~rejected),
        below_target=Count("verdict", filter=Q(verdict__outcome="below_target")),
        rejected=Count("verdict", filter=rejected),
        rejected_fast=Count("verdict", filter=rejected & Q(verdict__measured_speedup__gte=F("verdict__target"))),
        captured=Sum("verdict__capture", default=0.0),
        mean_log_speedup=Avg(Ln("verdict__speedup"), filter=Q(verdict__speedup__gt=0)),
        latest=Max("finished_at"),
    )
    failures = {}
    codes = runs.exclude(verdict__primary_failure="").values_list(*KEY, "verdict__primary_failure")
    for *key, code, count in codes.annotate(Count("id")):
        failures.setdefault(tuple(key), {})[code] = count
    model = apps.get_model("standings", "TaskStanding")
    model.objects.bulk_create(
        [model(**row, failures=failures.get(tuple(row[name] for name in KEY), {})) for row in counted], batch_size=500
    )


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0002_describe_timed_runs'),
        ('standings', '0003_task_standings'),
    ]

    operations = [migrations.RunPython(count_earlier_runs, migrations.RunPython.noop)]
