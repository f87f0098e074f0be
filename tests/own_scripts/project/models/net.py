class Net:
    def __init__(self, depth):
        self.depth = depth
