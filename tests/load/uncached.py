"""The portal's settings with nothing kept between two requests: each is the first after a verdict."""

from __future__ import annotations

from portal.settings import *  # noqa: F403

CACHES = {"default": {"BACKEND": "django.core.cache.backends.dummy.DummyCache"}}
