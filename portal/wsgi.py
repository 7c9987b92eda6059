"""The WSGI application that a web server loads."""

import os

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
# The products of a board are small: threads that wait for a share of them cost more than the products.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

application = get_wsgi_application()
