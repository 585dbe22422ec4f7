"""The project's application for the command line.

    DJANGO_SETTINGS_MODULE=shop.settings windlass runs --app windlass.contrib.django.project

Importing this sets Django up, as manage.py does: jobs.py alone may not be able to import models.
"""

import django

from windlass.contrib.django import get_app

django.setup()
app = get_app()
