NAME = "small"


def square(number):
    return number * number
