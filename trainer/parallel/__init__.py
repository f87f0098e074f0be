"""How the ranks share the work of one model. One way per file; way.py says what each must do, and chooses."""
