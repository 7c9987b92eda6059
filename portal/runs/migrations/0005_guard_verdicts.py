from django.db import migrations

from portal.review.append_only import guard_table, release_table


def guard(_apps, schema_editor):
    guard_table(schema_editor.connection, "runs_verdict", ("id",))


def release(_apps, schema_editor):
    release_table(schema_editor.connection, "runs_verdict")


class Migration(migrations.Migration):

    dependencies = [
        ('runs', '0004_point_to_verdicts'),
    ]

    operations = [migrations.RunPython(guard, release)]
