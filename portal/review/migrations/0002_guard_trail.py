from django.db import migrations

from portal.review.append_only import guard_table, release_table


def guard(_apps, schema_editor):
    guard_table(schema_editor.connection, "review_trailevent", ("number", "hash", "previous_hash"))


def release(_apps, schema_editor):
    release_table(schema_editor.connection, "review_trailevent")


class Migration(migrations.Migration):

    dependencies = [
        ('review', '0001_trail'),
    ]

    operations = [migrations.RunPython(guard, release)]
