import os
import time


def timestamp():
    return time.strftime("%Y%m%d_%H%M%S", time.localtime())


def mkdir_or_exist(dir_name):
    os.makedirs(os.path.expanduser(dir_name), exist_ok=True)
