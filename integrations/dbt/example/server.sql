-- tidemill serve server.sql --root DIR --pg-port 5432
CREATE TABLE orders (id BIGINT, customer INT, amount DECIMAL(10, 2), status STRING)
  USING csv OPTIONS (path 'data/orders/*.csv');
CREATE TABLE customers (customer INT, name STRING)
  USING csv OPTIONS (path 'data/customers/*.csv');
