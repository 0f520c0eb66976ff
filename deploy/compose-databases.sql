-- Run once, when the server of compose.yaml is new.
CREATE DATABASE prefect OWNER meterlake;
