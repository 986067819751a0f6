"""`python3 -m baechi`: the program `baechi`."""
import baechi_data

baechi_data.main()
