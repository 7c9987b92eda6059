from django.apps import AppConfig


class CampaignsConfig(AppConfig):
    name = "portal.campaigns"
