"""The two front doors: they translate, call the service and map errors. No logic lives here."""
