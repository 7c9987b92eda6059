#!/usr/bin/env python
"""Django's command line for the portal."""

import os
import sys

from django.core.management import execute_from_command_line

# They run beside submissions, and hold a key that opens nothing of the web.
WORKER_COMMANDS = {"worker", "cluster"}

if __name__ == "__main__":
    if WORKER_COMMANDS & set(sys.argv[1:2]):
        os.environ["DJANGO_SETTINGS_MODULE"] = "portal.worker_settings"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    execute_from_command_line(sys.argv)
