from django.db import migrations
from django.db.models import OuterRef, Subquery


def point_to_verdicts(apps, _schema_editor):
    """Let every run that was judged before there were revisions point to its only verdict."""
    verdicts = apps.get_model("runs", "Verdict").objects.filter(run=OuterRef("pk")).order_by("-number")
    runs = apps.get_model("runs", "Run").objects.filter(state="finished")
    runs.update(verdict=Subquery(verdicts.values("pk")[:1]))


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0003_verdict_revisions'),
    ]

    operations = [migrations.RunPython(point_to_verdicts, migrations.RunPython.noop)]
