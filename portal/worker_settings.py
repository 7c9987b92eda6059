"""The settings of workers: those of the portal, with a signing key that no other host has.

`manage.py worker` takes them by itself. The key signs django-q2's pickled wake-ups, which a worker sends to nobody but
itself. Whoever captures it can forge no session, no link in a mail and no invitation: the web's key signs those.
"""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured

from portal.settings import *  # noqa: F403
from portal.settings import VAR_DIR, env, read_secret_key

FOR_WORKER = True
SECRET_KEY = env.str("PORTAL_WORKER_KEY", default="") or read_secret_key(VAR_DIR / "worker-key")
if env.str("PORTAL_SECRET_KEY", default="") == SECRET_KEY:
    raise ImproperlyConfigured(
        "PORTAL_WORKER_KEY is the web's PORTAL_SECRET_KEY. Unset both on this host: a worker makes a key of its own."
    )
