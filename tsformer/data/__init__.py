"""The data road: frames to panels, panels to windows, windows to batches."""
