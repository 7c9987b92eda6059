from django.apps import AppConfig


class ImportsConfig(AppConfig):
    name = "portal.imports"
