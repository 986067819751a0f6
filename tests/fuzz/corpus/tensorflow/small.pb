


aConst

bNega