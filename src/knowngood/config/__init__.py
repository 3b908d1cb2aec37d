"""``knowngood.toml`` and experiment files become values here; unknown keys and wrong types end here, too."""
