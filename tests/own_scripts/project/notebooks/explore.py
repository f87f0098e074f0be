#!/usr/bin/env python
# coding: utf-8

# # Explore the data
# Written by `jupyter nbconvert --to script`, and started in its own folder.

# In[1]:


import os
from pathlib import Path

try:
    get_ipython().run_line_magic("matplotlib", "inline")
except NameError:
    pass


# In[2]:


text = Path("../data/train.txt").read_text()
len(text)


# In[3]:


os.makedirs("../figures", exist_ok=True)
Path("../figures/lengths.csv").write_text(f"file,length\ntrain.txt,{len(text)}\n")
print("characters:", len(text))
