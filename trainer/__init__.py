"""The trainer that every backend starts. It needs only torch and the standard library; this file imports nothing.

__main__.py starts a rank: dist/ joins the process group, build/ makes a Training of train.json (config/) with data/,
recipe/, models/, parallel/ and checkpoint/, and loop/ runs its steps. script.py offers the same services to a script.
"""
