SELECT origin, dep_dely FROM flights
