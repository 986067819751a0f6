


aConst

bNeg