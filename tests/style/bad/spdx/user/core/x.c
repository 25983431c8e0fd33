int sonde_x;
