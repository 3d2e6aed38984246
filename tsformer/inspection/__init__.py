"""Pictures and explanations of data, forecasts and models."""
