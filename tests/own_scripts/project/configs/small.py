model = {"type": "Net", "depth": 18}
total_epochs = 2
work_dir = None
